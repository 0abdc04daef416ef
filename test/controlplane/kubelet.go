//go:build controlplane

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/replica/node"
)

// Kubelet stands in, in one namespace, for what runs pods: the controllers of StatefulSets, volumes and disruption
// budgets, the scheduler, the kubelets, the garbage collector and the DNS. It runs every member for real, in this
// process, at a loopback address of its own and in a directory that plays its volume.
type Kubelet struct {
	t         *testing.T
	namespace string
	directory string        // of the volumes
	api       client.Client // reads from a cache
	direct    client.Reader // reads from the apiserver
	probes    *http.Client

	mu        sync.Mutex
	running   map[string]*process // by the pod's name
	addresses int                 // given so far
	held      map[string]bool     // names of pods that are not started
	least     int                 // members that ran at the worst moment since three did
}

// process is a member that runs, with what is beside it, or a witness alone.
type process struct {
	pod     string // its UID
	alone   bool   // it is a witness's
	address string // IP
	ready   atomic.Bool
	cancel  context.CancelFunc
	done    chan struct{} // closed when it has ended
}

// kubeletEvery is the pause between two looks at the objects, which are in a cache.
const kubeletEvery = 50 * time.Millisecond

// StartKubelet runs pods of a namespace until the test ends.
func StartKubelet(t *testing.T, config *rest.Config, namespace string) *Kubelet {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	consistent := true
	c, err := cluster.New(config, func(o *cluster.Options) {
		o.Scheme = scheme(t)
		o.Cache = cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}}
		o.Client.Cache = &client.CacheOptions{EnableReadYourWritesConsistency: &consistent}
	})
	if err != nil {
		t.Fatal(err)
	}
	k := &Kubelet{
		t: t, namespace: namespace, directory: t.TempDir(), api: c.GetClient(), direct: c.GetAPIReader(),
		probes:  &http.Client{Timeout: time.Second},
		running: map[string]*process{}, held: map[string]bool{},
	}
	var work sync.WaitGroup
	work.Go(func() {
		if err := c.Start(ctx); err != nil {
			t.Errorf("the kubelet's cache: %v", err)
		}
	})
	work.Go(func() { k.run(ctx) })
	t.Cleanup(func() {
		cancel()
		work.Wait()
		for _, p := range k.running { // order is irrelevant: all are stopped
			p.stop()
		}
	})
	return k
}

func (k *Kubelet) run(ctx context.Context) {
	ticker := time.NewTicker(kubeletEvery)
	defer ticker.Stop()
	var last string
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := errors.Join(k.collect(ctx), k.volumes(ctx), k.statefulSets(ctx), k.pods(ctx), k.budgets(ctx))
		if ctx.Err() != nil {
			return
		}
		if err != nil && err.Error() != last { // conflicts are ordinary: it looks again
			last = err.Error()
			k.t.Logf("the kubelet tries again: %v", err)
		}
	}
}

// statefulSets makes the pod of every StatefulSet that has none. Replicas are 1, always.
func (k *Kubelet) statefulSets(ctx context.Context) error {
	var sets appsv1.StatefulSetList
	if err := k.api.List(ctx, &sets, client.InNamespace(k.namespace)); err != nil {
		return err
	}
	var errs []error
	for i := range sets.Items {
		set := &sets.Items[i]
		if !set.DeletionTimestamp.IsZero() {
			continue
		}
		if set.Status.ObservedGeneration != set.Generation {
			set.Status.ObservedGeneration, set.Status.Replicas = set.Generation, 1
			errs = append(errs, k.api.Status().Update(ctx, set))
		}
		pod := &corev1.Pod{}
		key := client.ObjectKey{Namespace: k.namespace, Name: set.Name + "-0"}
		if err := k.api.Get(ctx, key, pod); err == nil || client.IgnoreNotFound(err) != nil {
			errs = append(errs, err)
			continue
		}
		pod = podOf(set)
		node, err := k.nodeFor(ctx, pod)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		pod.Spec.NodeName = node
		if err = k.api.Create(ctx, pod); err != nil {
			errs = append(errs, k.warn(ctx, set, err))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// warn says in an event that the pod of a StatefulSet could not be made, as the controller of StatefulSets does. One is
// enough.
func (k *Kubelet) warn(ctx context.Context, set *appsv1.StatefulSet, cause error) error {
	now := metav1.Now()
	return client.IgnoreAlreadyExists(k.api.Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name + ".failed"},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "apps/v1", Kind: "StatefulSet", Namespace: set.Namespace, Name: set.Name, UID: set.UID,
		},
		Type: corev1.EventTypeWarning, Reason: "FailedCreate", FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Message: fmt.Sprintf("create Pod %s-0 in StatefulSet %s failed error: %v", set.Name, set.Name, cause),
	}))
}

func podOf(set *appsv1.StatefulSet) *corev1.Pod {
	yes := true
	template := set.Spec.Template.DeepCopy()
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.Name = set.Namespace, set.Name+"-0"
	pod.OwnerReferences = nil
	pod.OwnerReferences = append(pod.OwnerReferences, ownerOf("apps/v1", "StatefulSet", set, yes))
	pod.Spec.Hostname, pod.Spec.Subdomain = pod.Name, set.Spec.ServiceName
	return pod
}

// pods starts, probes and ends pods.
func (k *Kubelet) pods(ctx context.Context) error {
	var pods corev1.PodList
	if err := k.api.List(ctx, &pods, client.InNamespace(k.namespace)); err != nil {
		return err
	}
	there := map[string]bool{}
	var errs []error
	for i := range pods.Items {
		pod := &pods.Items[i]
		there[pod.Name] = true
		errs = append(errs, k.pod(ctx, pod))
	}
	k.mu.Lock()
	var gone []*process
	for name, p := range k.running { // order is irrelevant: all that are gone are stopped
		if !there[name] {
			gone = append(gone, p)
			delete(k.running, name)
		}
	}
	k.mu.Unlock()
	for _, p := range gone {
		p.stop()
	}
	return errors.Join(errs...)
}

func (k *Kubelet) pod(ctx context.Context, pod *corev1.Pod) error {
	if pod.Spec.NodeName == "" && pod.DeletionTimestamp.IsZero() {
		return k.bind(ctx, pod)
	}
	placed, err := k.placed(ctx, pod)
	if err != nil {
		return err
	}
	p := k.process(pod.Name)
	if p != nil && (p.pod != string(pod.UID) || !pod.DeletionTimestamp.IsZero() || p.ended() || !placed) {
		k.Stop(pod.Name)
		p = nil
	}
	if !pod.DeletionTimestamp.IsZero() {
		now := int64(0)
		return client.IgnoreNotFound(k.api.Delete(ctx, pod, &client.DeleteOptions{GracePeriodSeconds: &now}))
	}
	if !placed {
		return k.report(ctx, pod, nil, false)
	}
	if p == nil {
		directory, err := k.mount(ctx, pod)
		if err != nil || directory == "" || k.isHeld(pod.Name) {
			return errors.Join(err, k.report(ctx, pod, nil, false))
		}
		if p, err = k.start(ctx, pod, directory); err != nil {
			return fmt.Errorf("start %s: %w", pod.Name, err)
		}
	}
	p.ready.Store(k.ready(ctx, p))
	return k.report(ctx, pod, p, p.ready.Load())
}

// start runs the member, or the witness, that a pod's arguments name, as the boot configuration says but for where it
// listens and stores.
func (k *Kubelet) start(ctx context.Context, pod *corev1.Pod, directory string) (*process, error) {
	config, err := k.config(ctx, pod, directory)
	if err != nil {
		return nil, err
	}
	alone := pod.Spec.Containers[0].Name == build.WitnessContainer
	address := k.nextAddress()
	at := func(port int) string { return net.JoinHostPort(address, strconv.Itoa(port)) }
	config.Listen = node.Listen{
		Peer: at(build.PeerPort), GRPC: at(build.GRPCPort), Redis: at(build.RedisPort),
		Admin: at(build.AdminPort), HTTP: at(build.HTTPPort),
	}
	running, cancel := context.WithCancel(context.Background())
	p := &process{pod: string(pod.UID), alone: alone, address: address, cancel: cancel, done: make(chan struct{})}
	image := pod.Spec.Containers[0].Image
	beside, err := k.besides(pod, directory, at)
	if err != nil {
		cancel()
		return nil, err
	}
	if !alone {
		beside = append(beside, func(ctx context.Context) error {
			return node.Run(ctx, config, node.Options{Version: image, Dial: k.dial})
		})
	}
	var work sync.WaitGroup
	for _, run := range beside {
		work.Go(func() {
			defer cancel()
			if err := run(running); err != nil {
				k.t.Logf("%s ended: %v", pod.Name, err)
			}
		})
	}
	go func() {
		work.Wait()
		close(p.done)
	}()
	k.mu.Lock()
	k.running[pod.Name] = p
	if k.least == 0 && k.members() == 3 {
		k.least = 3
	}
	k.mu.Unlock()
	return p, nil
}

// members is how many members run. The lock is held.
func (k *Kubelet) members() (n int) {
	for _, p := range k.running { // order is irrelevant: they are counted
		if !p.alone {
			n++
		}
	}
	return n
}

// dial finds the pod of a peer's name, as the DNS would.
func (k *Kubelet) dial(ctx context.Context, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	name, _, _ := strings.Cut(host, ".")
	p := k.process(name)
	if p == nil {
		return nil, fmt.Errorf("no such host: %s", host)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", net.JoinHostPort(p.address, port))
}

// ready asks a member's /readyz, as its readiness probe does.
func (k *Kubelet) ready(ctx context.Context, p *process) bool {
	status, _ := k.probe(ctx, p, "/readyz")
	return status == http.StatusOK
}

// quorum is what the member of a pod says at /quorumz.
func (k *Kubelet) quorum(ctx context.Context, pod string) string {
	p := k.process(pod)
	if p == nil {
		return "does not run"
	}
	_, said := k.probe(ctx, p, "/quorumz")
	return said
}

// probe asks a member; status 0 is no answer.
func (k *Kubelet) probe(ctx context.Context, p *process, path string) (status int, said string) {
	port := build.HTTPPort
	if p.alone {
		port = build.WitnessHTTPPort
	}
	url := "http://" + net.JoinHostPort(p.address, strconv.Itoa(port)) + path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err.Error()
	}
	response, err := k.probes.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

// nextAddress is a loopback address that this namespace had not yet.
func (k *Kubelet) nextAddress() string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(k.namespace + strconv.Itoa(os.Getpid()))) // never fails
	base := hash.Sum32()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.addresses++
	if k.addresses > 254 {
		k.t.Error("the kubelet has no addresses left")
	}
	return fmt.Sprintf("127.%d.%d.%d", 10+base%240, base>>16&255, k.addresses)
}

func (k *Kubelet) process(name string) *process {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.running[name]
}

func (k *Kubelet) isHeld(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.held[name]
}

func (p *process) stop() {
	p.cancel()
	<-p.done
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Stop ends the process of a pod. The kubelet starts it again, unless it is held.
func (k *Kubelet) Stop(name string) {
	k.mu.Lock()
	p := k.running[name]
	delete(k.running, name)
	k.least = min(k.least, k.members())
	k.mu.Unlock()
	if p != nil {
		p.stop()
	}
}

// Hold keeps the process of a pod from running until Release.
func (k *Kubelet) Hold(name string) {
	k.mu.Lock()
	k.held[name] = true
	k.mu.Unlock()
	k.Stop(name)
}

// Release undoes Hold.
func (k *Kubelet) Release(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.held, name)
}

// LeastRunning is how many members ran at the worst moment, after all three did.
func (k *Kubelet) LeastRunning() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.least
}
