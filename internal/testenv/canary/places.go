package canary

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Objects returns the objects of the cluster and of a namespace as JSON, by kind and name:
// of all kinds, with their managed fields, and of Secrets all but the data.
func Objects(ctx context.Context, config *rest.Config, namespace string) (map[string][]byte, error) {
	kinds, err := discovery.NewDiscoveryClientForConfigOrDie(config).ServerPreferredResources()
	if err != nil {
		return nil, fmt.Errorf("listing kinds: %w", err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	found := map[string][]byte{}
	for _, group := range kinds {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("listing kinds: %w", err)
		}
		for _, kind := range group.APIResources {
			if !slices.Contains(kind.Verbs, "list") || kind.Name == "customresourcedefinitions" {
				continue
			}
			lister := dynamic.ResourceInterface(objects.Resource(version.WithResource(kind.Name)))
			if kind.Namespaced {
				lister = objects.Resource(version.WithResource(kind.Name)).Namespace(namespace)
			}
			list, err := lister.List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, fmt.Errorf("listing %s: %w", kind.Name, err)
			}
			for i := range list.Items {
				if err := addObject(found, &list.Items[i]); err != nil {
					return nil, err
				}
			}
		}
	}
	return found, nil
}

func addObject(found map[string][]byte, obj *unstructured.Unstructured) error {
	if obj.GetKind() == "Secret" {
		delete(obj.Object, "data")
	}
	text, err := json.Marshal(obj.Object)
	if err != nil {
		return fmt.Errorf("encoding %s %s: %w", obj.GetKind(), obj.GetName(), err)
	}
	found[obj.GetKind()+" "+obj.GetName()] = text
	return nil
}

// Exposed returns the files below a directory that contain a secret and that other users
// of the machine may read, with their modes. The modes of directories do not count.
func (s *Set) Exposed(dir string) ([]string, error) {
	var exposed []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // A run removed it.
		}
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o077 == 0 || info.Size() > maxExpanded {
			return nil //nolint:nilerr // A run removed it.
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil //nolint:nilerr // A run removed it.
		}
		if found := s.Find(text); len(found) > 0 {
			exposed = append(exposed, fmt.Sprintf("%s %s: %s", info.Mode(), path, strings.Join(found, ", ")))
		}
		return nil
	})
	return exposed, err
}

// Arguments collects the arguments of all processes on this machine, which all its users
// can read.
type Arguments struct {
	mu   sync.Mutex
	seen map[string]bool
}

// Collect adds the arguments of the processes that run now.
func (a *Arguments) Collect() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.seen == nil {
		a.seen = map[string]bool{}
	}
	proc, err := os.Open("/proc")
	if err != nil {
		return // This machine has none.
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		text, err := os.ReadFile("/proc/" + name + "/cmdline")
		if err != nil {
			continue // The process has ended.
		}
		a.seen[string(text)] = true
	}
}

// Follow collects the arguments until the test ends.
func (a *Arguments) Follow(t testing.TB) {
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				a.Collect()
			}
		}
	}()
}

// Text returns the collected arguments, one process per line.
func (a *Arguments) Text() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all strings.Builder
	for text := range a.seen {
		all.WriteString(strings.ReplaceAll(text, "\x00", " ") + "\n")
	}
	return []byte(all.String())
}
