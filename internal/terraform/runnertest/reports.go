package runnertest

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/terraform/record"
)

// Reports returns what the runs of a namespace report: their logs, progress and results without
// the outputs. Sensitive values of a plan are masked in the log when the run ends.
func Reports(ctx context.Context, reader client.Reader, namespace string) (map[string][]byte, error) {
	var secrets corev1.SecretList
	if err := reader.List(ctx, &secrets, client.InNamespace(namespace), client.MatchingLabels{"capt.appthrust.io/component": record.ComponentRun}); err != nil {
		return nil, fmt.Errorf("listing runs: %w", err)
	}
	found := map[string][]byte{}
	for i := range secrets.Items {
		run := &secrets.Items[i]
		if text, err := record.Log(run); err == nil && record.Finished(run) {
			found["log of "+run.Name] = text
		}
		if progress, err := record.Progress(run); err == nil && progress != nil {
			if found["progress of "+run.Name], err = json.Marshal(progress); err != nil {
				return nil, fmt.Errorf("encoding the progress of %s: %w", run.Name, err)
			}
		}
		if result, err := record.Result(run); err == nil && result != nil {
			result.Outputs = nil
			if found["result of "+run.Name], err = json.Marshal(result); err != nil {
				return nil, fmt.Errorf("encoding the result of %s: %w", run.Name, err)
			}
		}
	}
	return found, nil
}
