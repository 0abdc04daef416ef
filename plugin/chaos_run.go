package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/config/chaos"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/workload/checked"
)

const (
	chaosOwner = client.FieldOwner("kubectl-georegister")
	// killAll is the experiment that only disks survive.
	killAll = "kill-all"
	// startsWithin is how long the verification's pod may take to start.
	startsWithin = 3 * time.Minute
	// healsWithin is how long Chaos Mesh may take to take back what it injected.
	healsWithin = 3 * time.Minute
	// lastLines is how long the last lines of the verification's log may take to arrive.
	lastLines = 10 * time.Second
	// failuresInARow is after how many questions without an answer a run is given up.
	failuresInARow = 30
	// judgedWithin is how long the verification may take after its load, to read back and to judge.
	judgedWithin = 5 * time.Minute
)

// RunChaos does an experiment, or EveryExperiment, on a cluster while a Job loads it from every site, and returns an
// error unless the Job proves that what its clients saw is linearizable. The error is an ErrChaosFailed if the cluster
// failed. It heals in the end, also if ctx ends. The Job stays, with its verdict and its log, unless ctx ends.
func (k *Kubernetes) RunChaos(ctx context.Context, out io.Writer, name string, o ChaosOptions) (err error) {
	c, err := k.cluster(ctx, o.Cluster)
	if err != nil {
		return err
	}
	p, err := k.chaosParameters(ctx, c, o)
	if err != nil {
		return err
	}
	r := &chaosRun{Kubernetes: k, id: rand.String(5), out: &lineWriter{out: out}, told: map[string]bool{},
		done: map[string]bool{}}
	r.wanted, r.emulated = chaosExperiments(name, o), c.Spec.WAN != nil && c.Spec.WAN.Provider == v1alpha1.ChaosMesh
	if d := c.Spec.Storage.Durability; slices.Contains(r.wanted, killAll) && d != "" && d != v1alpha1.Sync {
		return fmt.Errorf("%s: cluster %s has durability %s, and would be lost: it is for %s", killAll, c.Name, d,
			v1alpha1.Sync)
	}
	if r.workflow, err = chaosWorkflow(name, p, o); err != nil {
		return err
	}
	r.job = chaos.Manifest(chaos.Verification, p)
	r.label(r.workflow)
	r.label(r.job)
	if err := k.noOtherRun(ctx, c.Name); err != nil {
		return err
	}
	r.say("run %s on cluster %s: %s for %s; site %s is hit, %s is not, %s are a minority", r.id, c.Name, name,
		o.Duration,
		p.Site, p.Peer, strings.Join(p.Minority, ", "))
	interrupted := ctx.Err
	ctx, cancel := Within(ctx, startsWithin+o.Duration+judgedWithin)
	defer cancel()
	defer func() {
		if interrupted() != nil {
			r.say("interrupted: healing, and deleting what was made")
			err = errors.Join(err, r.delete(r.job))
		}
		err = errors.Join(err, r.heal())
	}()
	if err := r.begin(ctx); err != nil {
		return err
	}
	if err := r.follow(ctx); err != nil {
		return err
	}
	return r.verdict(ctx, out, o.Report)
}

// Within bounds a context, with a cause that names the bound.
func Within(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, timeout, fmt.Errorf("gave up after %v", timeout))
}

// chaosRun is a run under way.
type chaosRun struct {
	*Kubernetes
	id            string
	out           *lineWriter
	workflow, job *unstructured.Unstructured
	pod           *corev1.Pod     // of the job, once it runs
	told          map[string]bool // what was said of the Workflow's nodes
	wanted        []string        // experiments
	done          map[string]bool // experiments that were injected
	aborted       bool            // a quorum did not come back
	emulated      bool            // the network between the members
}

// undelayed is the traffic that an emulated network does not reach, for whoever reads the latencies.
const undelayed = "the network between members is emulated. Not delayed: the way between a site's clients and its " +
	"own members, and for " +
	"some seconds what goes to or from a pod that was killed, or one of whose rules changed"

func (r *chaosRun) say(format string, args ...any) {
	_ = r.out.write("chaos", fmt.Sprintf(format, args...)) // what can't be printed has nobody who reads it
}

// label tells an object of this run from those of others.
func (r *chaosRun) label(object *unstructured.Unstructured) {
	object.SetName(object.GetName() + "-" + r.id)
	labels := object.GetLabels()
	labels[chaos.RunLabel] = r.id
	object.SetLabels(labels)
}

// noOtherRun refuses a second run on a cluster: neither's verdict would tell what it was about.
func (k *Kubernetes) noOtherRun(ctx context.Context, cluster string) error {
	workflows, err := k.listChaos(ctx, workflowKind, client.MatchingLabels{build.ClusterLabel: cluster})
	if err != nil {
		return err
	}
	for i := range workflows {
		if !isTrue(&workflows[i], "Accomplished") {
			return fmt.Errorf("cluster %s: Workflow %s is under way; wait until it is over, or `kubectl "+
				"georegister chaos stop`",
				cluster, workflows[i].GetName())
		}
	}
	return nil
}

// begin starts the load, and once it runs what injects.
func (r *chaosRun) begin(ctx context.Context) error {
	if err := r.apply(ctx, r.job); err != nil {
		return err
	}
	starting, cancel := Within(ctx, startsWithin)
	defer cancel()
	err := poll(starting, pollEvery, func() (bool, string, error) {
		pod, err := r.verifier(ctx)
		if err != nil || pod == nil {
			return false, "the verification has no pod yet; see `kubectl describe job " + r.job.GetName() + "`", err
		}
		r.pod = pod
		status := containerStatus(pod)
		if status == nil || status.Running == nil && status.Terminated == nil {
			return false, fmt.Sprintf("pod %s does not run yet%s", pod.Name, waiting(status)), nil
		}
		return true, "", nil
	})
	if err != nil {
		return errors.Join(err, r.delete(r.job))
	}
	r.say("pod %s loads the cluster", r.pod.Name)
	return r.apply(ctx, r.workflow)
}

func (r *chaosRun) apply(ctx context.Context, object *unstructured.Unstructured) error {
	err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), chaosOwner,
		client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// verifier is the Job's pod, or nil if there is none.
func (r *chaosRun) verifier(ctx context.Context) (*corev1.Pod, error) {
	pods, err := r.pods(ctx, client.MatchingLabels{batchv1.JobNameLabel: r.job.GetName()})
	if len(pods) == 0 {
		return nil, err
	}
	return &pods[0], nil
}

// containerStatus is the state of the only container of a pod, or nil if it has none yet.
func containerStatus(pod *corev1.Pod) *corev1.ContainerState {
	if len(pod.Status.ContainerStatuses) == 0 {
		return nil
	}
	return &pod.Status.ContainerStatuses[0].State
}

func waiting(state *corev1.ContainerState) string {
	if state == nil || state.Waiting == nil {
		return ""
	}
	return fmt.Sprintf(": %s: %s", state.Waiting.Reason, state.Waiting.Message)
}

// follow tells what is injected and how the load is doing, until the load was judged.
func (r *chaosRun) follow(ctx context.Context) error {
	printing, stop := context.WithCancel(ctx)
	printed := make(chan struct{})
	pod := r.pod.Name // r.pod is what was last seen of it, which changes below
	go func() {
		defer close(printed)
		r.print(printing, pod)
	}()
	defer func() {
		stop()
		<-printed
	}()
	failures := 0
	err := poll(ctx, pollEvery, func() (bool, string, error) {
		pod, err := r.verifier(ctx)
		if err = errors.Join(err, r.progress(ctx)); err != nil {
			// What is broken on purpose may take the way to the apiserver with it for a while.
			if failures++; failures < failuresInARow {
				return false, err.Error(), nil
			}
			return false, "", err
		}
		failures = 0
		if pod == nil {
			return false, "", fmt.Errorf("pod %s of the verification is gone: nothing was decided", r.pod.Name)
		}
		r.pod = pod
		status := containerStatus(pod)
		ended := status != nil && status.Terminated != nil || pod.Status.Phase == corev1.PodFailed
		return ended, "the verification is not over", nil
	})
	if err == nil {
		// The log of what has ended ends too.
		select {
		case <-printed:
		case <-time.After(lastLines):
		}
	}
	return err
}

// print copies the log of the verification's pod as it comes. Whatever is missed of it is in the log that stays.
func (r *chaosRun) print(ctx context.Context, pod string) {
	err := r.copyLog(ctx, r.out, "verify", pod, &corev1.PodLogOptions{Follow: true})
	if err != nil && ctx.Err() == nil {
		r.say("the log of pod %s can't be followed: %v", pod, err)
	}
}

// verdict reads what the verification found.
func (r *chaosRun) verdict(ctx context.Context, out io.Writer, report string) error {
	if report != "" {
		text, err := r.Pods.CoreV1().Pods(r.Namespace).GetLogs(r.pod.Name, &corev1.PodLogOptions{}).DoRaw(ctx)
		if err == nil {
			err = os.WriteFile(report, text, 0o644)
		}
		if err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
		r.say("the report is in %s", report)
	}
	workflow := r.workflow.DeepCopy()
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(workflow), workflow)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read Workflow %s: %w", workflow.GetName(), err)
	}
	if !isTrue(workflow, "Accomplished") && !r.aborted {
		r.say("not everything was injected before the load was over: give a longer --duration next time")
	}
	status := containerStatus(r.pod)
	if status == nil || status.Terminated == nil {
		return fmt.Errorf("pod %s ended without a verdict: %s", r.pod.Name, r.pod.Status.Message)
	}
	found := checked.Summary{}
	if err := json.Unmarshal([]byte(status.Terminated.Message), &found); err != nil {
		return fmt.Errorf("pod %s ended with status %d (%s) and no report; see `kubectl logs -n %s %s`", r.pod.Name,
			status.Terminated.ExitCode, status.Terminated.Reason, r.Namespace, r.pod.Name)
	}
	fmt.Fprintf(out, "\nverdict: %s\n", found.Verdict)
	if err := found.Table(out); err != nil {
		return err
	}
	if r.emulated {
		fmt.Fprintln(out, undelayed)
	}
	fmt.Fprintf(out, "Job %s/%s keeps it; `kubectl georegister chaos stop %s` deletes it\n", r.Namespace,
		r.job.GetName(), r.id)
	return r.judge(int(status.Terminated.ExitCode), found.Reason)
}

// judge is the error of a run whose verification ended with a status.
func (r *chaosRun) judge(status int, reason string) error {
	switch {
	case status == 1:
		return fmt.Errorf("%w: %s", ErrChaosFailed, reason)
	case status != 0:
		return fmt.Errorf("the verification ended with status %d and decided nothing: %s", status, reason)
	case r.aborted:
		return fmt.Errorf("%w: nothing that was acknowledged is lost, but a quorum was not there for a minute, so the "+
			"rest was not injected", ErrChaosFailed)
	}
	missed := slices.DeleteFunc(slices.Clone(r.wanted), func(name string) bool { return r.done[name] })
	if len(missed) > 0 {
		return fmt.Errorf("%s: not injected into all that it should hit, so nothing is proved of it; see "+
			"`kubectl describe workflownodes,podchaos,networkchaos` during the next run, and the log of the node's "+
			"chaos-daemon",
			strings.Join(missed, ", "))
	}
	return nil
}

// heal deletes the Workflow, and waits until Chaos Mesh has taken back what it injected.
func (r *chaosRun) heal() error {
	if err := r.delete(r.workflow); err != nil {
		return err
	}
	ctx, cancel := Within(context.Background(), healsWithin)
	defer cancel()
	err := r.gone(ctx, workflowNodeKind, workflowLabel, r.workflow.GetName())
	if err == nil {
		r.say("healed: nothing is injected any more")
	}
	return err
}

// delete deletes an object that may be gone already, also when the run was interrupted.
func (r *chaosRun) delete(object *unstructured.Unstructured) error {
	return r.Kubernetes.delete(context.Background(), object)
}

func (k *Kubernetes) delete(ctx context.Context, object *unstructured.Unstructured) error {
	ctx, cancel := Within(ctx, healsWithin)
	defer cancel()
	err := k.Client.Delete(ctx, object.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}
