package record_test

import (
	"bytes"
	"encoding/json"
	"strings"
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
		_ = record.State(secret)
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

// What is read of a state without decoding it is what decoding it yields.
func FuzzStateIsEmpty(f *testing.F) {
	f.Add([]byte(`{"version":4,"lineage":"a","serial":1,"resources":[],"outputs":{"a":{"value":"]}"}}}`))
	f.Add([]byte(`{"lineage":"a","serial":2,"resources":[{"a":[1,{}]}]}`))
	f.Add([]byte(`{ "meta" : {}, "encrypted_data" : "\\"" , "resources":null}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		data, err := record.Compress(text)
		if err != nil {
			t.Fatal(err)
		}
		empty, version, err := record.StateIsEmpty(&corev1.Secret{Data: map[string][]byte{"tfstate": data}})
		var fields map[string]json.RawMessage
		if json.Unmarshal(text, &fields) != nil || fields == nil {
			return
		}
		var lineage, encrypted string
		var serial uint64
		var resources []json.RawMessage
		for name, into := range map[string]any{"lineage": &lineage, "serial": &serial, "resources": &resources, "encrypted_data": &encrypted} {
			for other := range fields {
				// The tool, too, reads the last of several spellings.
				if other != name && strings.EqualFold(other, name) {
					return
				}
			}
			if value, found := fields[name]; found && (json.Unmarshal(value, into) != nil || len(value) > 1000) {
				return
			}
		}
		switch {
		case err != nil:
			// Names and numbers of any length are valid, but not in a state.
			if len(text) < 1000 {
				t.Fatalf("%s: %v", text, err)
			}
		case empty && (len(resources) > 0 || encrypted != ""):
			t.Fatalf("%s is not empty", text)
		case version.Lineage != lineage || version.Serial != serial:
			t.Fatalf("%s has version %+v", text, version)
		}
	})
}
