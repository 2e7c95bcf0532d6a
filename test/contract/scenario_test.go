package contract

import (
	"errors"
	"fmt"
	"sync"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/testenv"
)

// scenario is played once, by the first rule that asks for it; what it comes to
// is there for all.
type scenario[T any] struct {
	play func(w *harness) T
	// environment is where it is played, if not in that of all.
	environment func() (*testenv.Environment, error)

	once  sync.Once
	value T
	err   error
}

// in plays the scenario, or waits for it, and fails the rule if it failed.
func (s *scenario[T]) in(c *check) T {
	c.t.Helper()
	s.once.Do(func() { s.err = errors.New("the scenario ended early"); s.value, s.err = s.perform() })
	if s.err != nil {
		c.t.Fatalf("there is nothing to check the clause on: %v", s.err)
	}
	return s.value
}

func (s *scenario[T]) perform() (value T, err error) {
	e := env
	if s.environment != nil {
		if e, err = s.environment(); err != nil {
			return value, err
		}
	}
	var w *harness
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = errors.New(string(r))
			if w != nil {
				err = fmt.Errorf("%w\n%s", err, w.show())
			}
		default:
			panic(r)
		}
	}()
	w = newHarness(NewGomega(func(message string, _ ...int) { panic(failure(message)) }), e)
	return s.play(w), nil
}

// failure is what an assertion of a scenario ends it with.
type failure string
