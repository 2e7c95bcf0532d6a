package manager

import (
	"context"
	"net"
	"testing"

	. "github.com/onsi/gomega"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// runnables is a manager that only remembers what it would run.
type runnables struct {
	ctrl.Manager
	added []manager.Runnable
}

func (r *runnables) Add(runnable manager.Runnable) error {
	r.added = append(r.added, runnable)
	return nil
}

// traceCollector receives traces.
type traceCollector struct {
	collector.UnimplementedTraceServiceServer
	names chan string
}

func (c *traceCollector) Export(_ context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	for _, resource := range request.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				c.names <- span.GetName()
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func TestTraces_areSentAtTheLatestWhenTheManagerStops(t *testing.T) {
	g := NewWithT(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	received := &traceCollector{names: make(chan string, 1)}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, received)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)

	mgr := &runnables{}
	tracer, err := setupTraces(t.Context(), mgr, &Options{TracesEndpoint: "http://" + listener.Addr().String()})
	g.Expect(err).NotTo(HaveOccurred())
	_, span := tracer.Start(t.Context(), "Apply")
	span.End()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	g.Expect(mgr.added).To(HaveLen(1))
	g.Expect(mgr.added[0].Start(stopped)).To(Succeed())
	g.Eventually(received.names).Should(Receive(Equal("Apply")))
}

func TestTraces_areOffByDefault(t *testing.T) {
	g := NewWithT(t)
	mgr := &runnables{}
	g.Expect(setupTraces(t.Context(), mgr, NewOptions())).To(BeNil())
	g.Expect(mgr.added).To(BeEmpty())
}

func TestTraces_requireAnAddress(t *testing.T) {
	for endpoint, valid := range map[string]bool{
		"": true, "http://collector:4317": true, "https://collector.example.com": true,
		"collector:4317": false, "ftp://collector": false, "http://": false, "http://a b": false,
	} {
		t.Run(endpoint, func(t *testing.T) {
			err := (&Options{TracesEndpoint: endpoint}).validateTraces()
			NewWithT(t).Expect(err == nil).To(Equal(valid), "%v", err)
		})
	}
}
