package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// Forwarder opens an address on the loopback interface that leads to a port of a pod, until stop is called or the
// connection breaks.
type Forwarder func(ctx context.Context, pod string, port int) (address string, stop func(), err error)

// forwarder forwards through the apiserver, as `kubectl port-forward` does.
func forwarder(config *rest.Config, core kubernetes.Interface, namespace string) Forwarder {
	return func(ctx context.Context, pod string, port int) (string, func(), error) {
		dialer, err := newDialer(config, core, namespace, pod)
		if err != nil {
			return "", nil, fmt.Errorf("forward to pod %s: %w", pod, err)
		}
		life, stop := context.WithCancel(context.WithoutCancel(ctx))
		ready := make(chan struct{})
		ports := []string{fmt.Sprintf("0:%d", port)}
		forward, err := portforward.NewOnAddressesForStreamingWithContext(life, dialer, []string{"127.0.0.1"}, ports,
			ready, io.Discard, io.Discard)
		if err != nil {
			stop()
			return "", nil, fmt.Errorf("forward to pod %s: %w", pod, err)
		}
		ended := make(chan error, 1)
		go func() { ended <- forward.ForwardPorts() }()
		halt := func() {
			stop()
			<-ended
		}
		select {
		case <-ready:
		case err := <-ended:
			stop()
			return "", nil, fmt.Errorf("forward to pod %s: %w", pod, errors.Join(err, ctx.Err()))
		case <-ctx.Done():
			halt()
			return "", nil, fmt.Errorf("forward to pod %s: %w", pod, context.Cause(ctx))
		}
		opened, err := forward.GetPorts()
		if err != nil {
			halt()
			return "", nil, fmt.Errorf("forward to pod %s: %w", pod, err)
		}
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(opened[0].Local))), halt, nil
	}
}

// newDialer speaks WebSocket, and SPDY to an apiserver that refuses that.
func newDialer(config *rest.Config, core kubernetes.Interface, namespace, pod string) (httpstream.Dialer, error) {
	url := core.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).
		SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	old := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	tunnel, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, config)
	if err != nil {
		return nil, err
	}
	return portforward.NewFallbackDialerForStreaming(tunnel, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}
