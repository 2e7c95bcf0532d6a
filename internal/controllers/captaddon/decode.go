package captaddon

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/appthrust/capt/internal/kubernetes/manifest"
)

// turn is that of an add-on: large texts are decoded one at a time.
func (s *scope) turn() manifest.Turn { return manifest.Turn{Namespace: s.addon.Namespace} }

// parse returns the objects of a text. It blocks until it is the turn of the add-on, or ctx ends.
func (s *scope) parse(ctx context.Context, text []byte) ([]*unstructured.Unstructured, error) {
	end, err := s.turn().Wait(ctx, text)
	if err != nil {
		return nil, err
	}
	defer end()
	return manifest.Parse(text)
}
