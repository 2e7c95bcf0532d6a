package manager

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/appthrust/capt/internal/version"
)

// flushTimeout is how long a manager that stops may take to send the last traces.
const flushTimeout = 5 * time.Second

// validateTraces returns an error if the traces cannot be sent to their endpoint.
func (o *Options) validateTraces() error {
	if o.TracesEndpoint == "" {
		return nil
	}
	endpoint, err := url.Parse(o.TracesEndpoint)
	if err != nil || (endpoint.Scheme != "http" && endpoint.Scheme != "https") || endpoint.Hostname() == "" {
		return errors.New("--traces-endpoint is not the address of a collector: set it to, for example, https://collector.example.com:4317, or to http://… for one without TLS")
	}
	return nil
}

// setupTraces returns the tracer of runs, or nil if traces are not wanted. The manager
// sends the last ones when it stops.
func setupTraces(ctx context.Context, mgr ctrl.Manager, o *Options) (trace.Tracer, error) {
	if o.TracesEndpoint == "" {
		return nil, nil
	}
	// It connects when it has something to send.
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(o.TracesEndpoint))
	if err != nil {
		return nil, fmt.Errorf("setting up traces: %w", err)
	}
	logger := klog.FromContext(ctx).WithName("traces")
	// The libraries report each connection at their own verbosity.
	otel.SetLogger(logr.Discard())
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { logger.Error(err, "Sending traces") }))
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(resource.NewSchemaless(
		attribute.String("service.name", userAgent), attribute.String("service.version", version.Version()))))
	flush := manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			logger.Error(err, "Sending the last traces")
		}
		return nil
	})
	if err := mgr.Add(flush); err != nil {
		return nil, fmt.Errorf("adding the traces: %w", err)
	}
	return provider.Tracer("github.com/appthrust/capt"), nil
}
