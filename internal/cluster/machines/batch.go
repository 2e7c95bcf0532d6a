package machines

import (
	"sync"
)

// SlowStart calls do count times, in concurrent batches of 1, 2, 4 and so on. It
// stops after a batch with an error, so that a persistent error is hit a few
// times only. It returns the number of calls that succeeded and the first error.
func SlowStart(count int, do func(i int) error) (int, error) {
	done, succeeded := 0, 0
	for size := 1; done < count; size *= 2 {
		size = min(size, count-done)
		errs := make([]error, size)
		var wg sync.WaitGroup
		for i := range size {
			wg.Go(func() { errs[i] = do(done + i) })
		}
		wg.Wait()
		var first error
		for _, err := range errs {
			switch {
			case err == nil:
				succeeded++
			case first == nil:
				first = err
			}
		}
		if first != nil {
			return succeeded, first
		}
		done += size
	}
	return succeeded, nil
}
