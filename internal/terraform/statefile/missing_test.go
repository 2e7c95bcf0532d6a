package statefile

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
)

func TestMissing(t *testing.T) {
	state := func(instances string) string {
		return fmt.Sprintf(`{"version":4,"serial":1,"lineage":"l","resources":[{"mode":"data","type":"d","name":"d","instances":[{}]},{"mode":"managed","type":"t","name":"n","instances":[%s]}]}`, instances)
	}
	const first, second, again = `{"index_key":0,"attributes":{"id":"a"}}`, `{"index_key":1,"attributes":{"id":"b"}}`, `{"index_key":1,"attributes":{"id":"c"}}`
	for name, tc := range map[string]struct {
		state, other string
		want         int
	}{
		"the same":              {state(first), state(first), 0},
		"fewer":                 {state(first), state(first + "," + second), 0},
		"one more":              {state(first + "," + second), state(first), 1},
		"one was created again": {state(first + "," + second), state(first + "," + again), 1},
		"nothing is saved":      {state(first + "," + second), "", 2},
		"a deposed one":         {state(`{"index_key":0,"deposed":"12345678","attributes":{"id":"a"}}`), state(first), 1},
		"no IDs":                {state(`{"index_key":0}`), state(`{"index_key":0,"attributes":"x"}`), 0},
		"an encrypted one":      {`{"encrypted_data":"x"}`, state(first), -1},
		"beside an encrypted":   {state(first), `{"encrypted_data":"x"}`, -1},
		"no state":              {"x", state(first), -1},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(Missing([]byte(tc.state), []byte(tc.other))).To(Equal(tc.want))
		})
	}
}
