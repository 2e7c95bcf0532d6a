package contract

import (
	"errors"
	"fmt"
	"sync"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/testenv"
)

// scenario runs once, for the first rule that requests it. All rules share its result.
type scenario[T any] struct {
	run func(h *harness) T
	// environment returns the environment, if it is not the shared one.
	environment func() (*testenv.Environment, error)

	once  sync.Once
	value T
	err   error
}

// in runs the scenario, or waits for it, and fails the rule if the scenario failed.
func (s *scenario[T]) in(c *check) T {
	c.t.Helper()
	s.once.Do(func() { s.err = errors.New("the scenario ended early"); s.value, s.err = s.start() })
	if s.err != nil {
		c.t.Fatalf("the scenario of the clause failed: %v", s.err)
	}
	return s.value
}

func (s *scenario[T]) start() (value T, err error) {
	e := env
	if s.environment != nil {
		if e, err = s.environment(); err != nil {
			return value, err
		}
	}
	var h *harness
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = errors.New(string(r))
			if h != nil {
				err = fmt.Errorf("%w\n%s", err, h.dump())
			}
		default:
			panic(r)
		}
	}()
	h = newHarness(NewGomega(func(message string, _ ...int) { panic(failure(message)) }), e)
	return s.run(h), nil
}

// failure is the panic value of a failed assertion in a scenario.
type failure string
