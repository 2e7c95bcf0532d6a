package record_test

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/appthrust/capt/internal/terraform/record"
)

// A run writes its own Secret.
func FuzzRunSecret(f *testing.F) {
	result, err := record.Compress([]byte(`{"outcome":"Succeeded","outputs":{"a":{"value":1}}}`))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(result, []byte(`{"pod":"p"}`), []byte(`{"phase":"Applying","done":1}`), []byte(`{"serial":1}`))
	f.Add([]byte("x"), []byte("["), []byte("null"), []byte(`{"serial":"x"}`))
	f.Fuzz(func(t *testing.T, result, identity, progress, state []byte) {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"capt.appthrust.io/component": record.ComponentRun}},
			Data:       map[string][]byte{"result": result, "request": result, "identity": identity, "progress": progress, "state": state, "log": result},
		}
		_, _ = record.Result(secret)
		_, _ = record.Request(secret)
		_, _ = record.RunIdentity(secret)
		_, _ = record.Progress(secret)
		_, _ = record.State(secret)
		_, _ = record.Log(secret)
		finished := record.Finished(secret)
		record.Trim(secret)
		if record.Finished(secret) != finished {
			t.Fatal("Trim changes whether a run has finished")
		}
	})
}

// Runs write plans and states in chunks.
func FuzzChunks(f *testing.F) {
	f.Add([]byte("content"), []byte("x"))
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, content, forged []byte) {
		chunks, err := record.Chunks("plan-a", content, metav1.ObjectMeta{Namespace: "n"})
		if err != nil {
			return
		}
		if joined, err := record.Join(chunks); err != nil || !bytes.Equal(joined, content) {
			t.Fatalf("%d bytes become %d: %v", len(content), len(joined), err)
		}
		for key := range chunks[0].Data {
			chunks[0].Data[key] = forged
		}
		_, _ = record.Join(chunks)
		_, _ = record.ChunkCount(chunks[0])
	})
}
