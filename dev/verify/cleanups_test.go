package main

import "testing"

func TestCheckCleanups(t *testing.T) {
	for name, tt := range map[string]struct {
		body string
		want int
	}{
		"the context of the test":         {"t.Cleanup(func() { remove(t.Context()) })", 1},
		"that of a test in a field":       {"h.t.Cleanup(func() { remove(h.t.Context()) })", 1},
		"that of a benchmark":             {"b.Cleanup(func() { remove(b.Context()) })", 1},
		"a variable":                      {"t.Cleanup(func() { remove(ctx) })", 1},
		"a field":                         {"t.Cleanup(func() { remove(h.ctx) })", 1},
		"two":                             {"t.Cleanup(func() { remove(ctx); remove(t.Context()) })", 2},
		"derived from a variable":         {"t.Cleanup(func() { ctx, cancel := context.WithTimeout(ctx, time.Minute); defer cancel(); remove(ctx) })", 1},
		"in a function of the clean-up":   {"t.Cleanup(func() { Eventually(func() error { return remove(ctx) }) })", 1},
		"without its end":                 {"t.Cleanup(func() { remove(context.WithoutCancel(t.Context())); remove(context.WithoutCancel(ctx)) })", 0},
		"the background":                  {"t.Cleanup(func() { remove(context.Background()) })", 0},
		"its own":                         {"t.Cleanup(func() { ctx, cancel := context.WithTimeout(context.Background(), time.Minute); defer cancel(); remove(ctx) })", 0},
		"its own, declared":               {"t.Cleanup(func() { var ctx = context.Background(); remove(ctx) })", 0},
		"a parameter":                     {"t.Cleanup(func() { each(func(ctx context.Context) { remove(ctx) }) })", 0},
		"a context of a request":          {"t.Cleanup(func() { remove(request.Context()) })", 0},
		"outside":                         {"remove(t.Context()); remove(ctx); t.Cleanup(stop)", 0},
		"a function that cleans up later": {"defer func() { remove(ctx) }()", 0},
	} {
		t.Run(name, func(t *testing.T) {
			if errs := checkCleanups("a_test.go", []byte("package a\n\nfunc f() {\n"+tt.body+"\n}\n")); len(errs) != tt.want {
				t.Errorf("found %v, want %d", errs, tt.want)
			}
		})
	}
	if errs := checkCleanups("a_test.go", []byte("package")); len(errs) != 1 {
		t.Errorf("a file that is not Go: %v", errs)
	}
}
