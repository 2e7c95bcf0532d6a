package manifest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
)

func TestWait_letsOneLargeTextBeDecoded(t *testing.T) {
	large, small := []byte(strings.Repeat("- a\n", 10_000)), []byte("a: 1\n")
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		turn := Turn{Namespace: "a"}
		end, err := turn.Wait(t.Context(), small, large)
		g.Expect(err).NotTo(HaveOccurred())
		endSmall, err := turn.Wait(t.Context(), small)
		g.Expect(err).NotTo(HaveOccurred())
		endSmall()
		begun := start(t, &decodings, turn)
		synctest.Wait()
		g.Expect(begun).NotTo(BeClosed())
		end()
		synctest.Wait()
		g.Expect(begun).To(BeClosed())
		g.Expect(decodings.busy).To(BeFalse())
	})
}

// Texts that are small alone may be large together.
func TestAreSmall_countsAllTexts(t *testing.T) {
	for name, test := range map[string]struct {
		text        string
		small, many int
	}{
		"elements":  {"[" + strings.Repeat("1,", 900) + "1]", 2, 3},
		"bytes":     {strings.Repeat("x", 30<<10), 2, 3},
		"documents": {"a: 1", 1_000, 2_001},
		"aliases":   {"a: &a 1\nb: *a\n", 0, 1},
		"UTF-16":    {"\xff\xfea\x00", 0, 1},
	} {
		g := NewWithT(t)
		g.Expect(AreSmall(slices.Repeat([][]byte{[]byte(test.text)}, test.small)...)).To(BeTrue(), name)
		g.Expect(AreSmall(slices.Repeat([][]byte{[]byte(test.text)}, test.many)...)).To(BeFalse(), name)
	}
}

// start waits for a turn, and ends it at once. The channel is closed when it came.
func start(t *testing.T, q *queue, turn Turn) <-chan struct{} {
	begun := make(chan struct{})
	go func() {
		end, err := q.wait(t.Context(), turn)
		if err != nil {
			t.Error(err)
			return
		}
		close(begun)
		end()
	}()
	return begun
}

func TestWait_takesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var (
			q     queue
			mu    sync.Mutex
			order []string
			group sync.WaitGroup
		)
		end, err := q.wait(t.Context(), Turn{Namespace: "noisy"})
		g.Expect(err).NotTo(HaveOccurred())
		enqueue := func(turn Turn) {
			group.Go(func() {
				end, err := q.wait(t.Context(), turn)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, fmt.Sprintf("%s %t", turn.Namespace, turn.Admission))
				mu.Unlock()
				end()
			})
			synctest.Wait()
		}
		for range 3 {
			enqueue(Turn{Namespace: "noisy"})
		}
		for range 2 {
			enqueue(Turn{Namespace: "noisy", Admission: true})
		}
		enqueue(Turn{Namespace: "quiet"})
		enqueue(Turn{Namespace: "quiet", Admission: true})
		end()
		group.Wait()
		g.Expect(order).To(Equal([]string{"noisy true", "noisy false", "quiet true", "quiet false", "noisy true", "noisy false", "noisy false"}))
		g.Expect(q.busy).To(BeFalse())
	})
}

func TestWait_endsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var q queue
		end, err := q.wait(t.Context(), Turn{Namespace: "a"})
		g.Expect(err).NotTo(HaveOccurred())
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := q.wait(ctx, Turn{Namespace: "a"})
			failed <- err
		}()
		synctest.Wait()
		second := start(t, &q, Turn{Namespace: "a"})
		synctest.Wait()
		cancel()
		g.Expect(<-failed).To(MatchError(context.Canceled))
		end()
		synctest.Wait()
		g.Expect(second).To(BeClosed(), "the next one has its turn")
		g.Expect(q.busy).To(BeFalse())
		g.Expect(q.others.order).To(BeEmpty())
	})
}

// A turn that comes when its context ends is not lost.
func TestWait_givesAwayATurnThatIsNotNeeded(t *testing.T) {
	for range 100 {
		var q queue
		end, _ := q.wait(t.Context(), Turn{})
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() {
			if end, err := q.wait(ctx, Turn{}); err == nil {
				end()
			}
		})
		group.Go(cancel)
		group.Go(end)
		group.Wait()
		NewWithT(t).Expect(q.busy).To(BeFalse())
	}
}

// The requests that wait need memory, too.
func TestWait_limitsAdmissions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var q queue
		end, err := q.wait(t.Context(), Turn{Namespace: "a", Admission: true})
		g.Expect(err).NotTo(HaveOccurred())
		for i := range maxAllWaiting {
			start(t, &q, Turn{Namespace: fmt.Sprint(i / maxWaiting), Admission: true})
		}
		synctest.Wait()
		for _, namespace := range []string{"0", "another"} {
			_, err := q.wait(t.Context(), Turn{Namespace: namespace, Admission: true})
			g.Expect(err).To(MatchError(ErrBusy))
		}
		reconciler := start(t, &q, Turn{Namespace: "0"})
		end()
		synctest.Wait()
		g.Expect(reconciler).To(BeClosed())
		g.Expect(q.busy).To(BeFalse())
	})
}
