package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pageSize and maxPages limit the lists of a kind.
const pageSize, maxPages = 100, 10_000

// ErrStop ends EachPage without an error.
var ErrStop = errors.New("no more pages are needed")

// EachPage lists objects in small pages, as Pages does.
func EachPage[L client.ObjectList](ctx context.Context, c client.Reader, newList func() L, each func(page L) error, opts ...client.ListOption) error {
	return Pages(func(limit int64, next string) (L, error) {
		page := newList()
		return page, c.List(ctx, page, append(slices.Clip(opts), client.Limit(limit), client.Continue(next))...)
	}, each)
}

// Pages lists objects in small pages, and calls a function for each of them, which should
// keep little of it. Of large objects it reads fewer at once. Without pages the users of a
// workload cluster would decide how much memory a list needs.
func Pages[L metav1.ListInterface](list func(limit int64, next string) (L, error), each func(page L) error) error {
	limit, next := int64(pageSize), ""
	for range maxPages {
		page, err := list(limit, next)
		if errors.Is(err, ErrTooLarge) && limit > 1 {
			limit /= 2
			continue
		}
		if err == nil {
			err = each(page)
		}
		switch {
		case errors.Is(err, ErrStop):
			return nil
		case err != nil:
			return err
		}
		if next = page.GetContinue(); next == "" {
			return nil
		}
	}
	return fmt.Errorf("the list has more than %d pages", maxPages)
}
