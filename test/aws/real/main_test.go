package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/test/aws/account"
)

// emptyAccount is AWS with nothing in the account 123456789012. It counts the calls that
// would create or delete something.
func emptyAccount(t *testing.T) (writes *int) {
	t.Helper()
	writes = new(int)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		switch action := r.PostForm.Get("Action"); {
		case action == "GetCallerIdentity":
			_, _ = w.Write([]byte(`<R><GetCallerIdentityResult><Account>123456789012</Account></GetCallerIdentityResult></R>`))
		case r.Method == http.MethodDelete:
			*writes++
		case action != "":
			_, _ = fmt.Fprintf(w, "<R><%[1]sResult></%[1]sResult></R>", action)
		case r.Method == http.MethodGet:
			w.Header().Set("X-Amzn-Errortype", "ResourceNotFoundException")
			http.Error(w, "{}", http.StatusNotFound)
		default:
			_, _ = w.Write([]byte(`{}`))
		}
	}))
	t.Cleanup(server.Close)
	t.Setenv("AWS_ENDPOINT_URL", server.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	return writes
}

func variables(accountID, budget string) func(string) string {
	return func(name string) string {
		return map[string]string{account.AccountVariable: accountID, account.RegionVariable: "eu-central-1", account.BudgetVariable: budget}[name]
	}
}

func TestCheck_refusesToStart(t *testing.T) {
	for name, test := range map[string]struct{ account, budget, want string }{
		"without an account": {"", "5", "is not the id of an account"},
		"in another account": {"210987654321", "5", "the credentials are those of account 123456789012, not of account 210987654321"},
		"without a budget":   {"123456789012", "", "is not an amount"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			writes := emptyAccount(t)
			var out, messages bytes.Buffer
			g.Expect(run(t.Context(), []string{"check"}, variables(test.account, test.budget), &out, &messages)).To(MatchError(And(HavePrefix("nothing was created"), ContainSubstring(test.want))))
			// A sweep needs no budget.
			if err := run(t.Context(), []string{"sweep", "abc123"}, variables(test.account, test.budget), &out, &messages); test.budget != "" {
				g.Expect(err).To(MatchError(And(HavePrefix("nothing was deleted"), ContainSubstring(test.want))))
			} else {
				g.Expect(err).NotTo(HaveOccurred())
			}
			g.Expect(out.String()).To(BeEmpty(), "there is no run")
			g.Expect(*writes).To(BeZero())
		})
	}
}

func TestCheck_printsARun(t *testing.T) {
	g := NewWithT(t)
	emptyAccount(t)
	var out, messages bytes.Buffer
	g.Expect(run(t.Context(), []string{"check"}, variables("123456789012", "5"), &out, &messages)).To(Succeed())
	g.Expect(out.String()).To(MatchRegexp(`^[a-z0-9]{8}\n$`))
	g.Expect(messages.String()).To(And(ContainSubstring("account 123456789012, region eu-central-1"), ContainSubstring("up to 5.00 USD: after 3h0m0s"), ContainSubstring("make e2e-aws-sweep RUN=")))
}

func TestSweep_endsWhenNothingIsLeft(t *testing.T) {
	g := NewWithT(t)
	writes := emptyAccount(t)
	var out, messages bytes.Buffer
	g.Expect(run(t.Context(), []string{"sweep", "abc123"}, variables("123456789012", "5"), &out, &messages)).To(Succeed())
	g.Expect(messages.String()).To(ContainSubstring("Nothing of run abc123 is left"))
	g.Expect(*writes).To(BeZero())
	g.Expect(run(t.Context(), []string{"sweep", "*"}, variables("123456789012", "5"), &out, &messages)).NotTo(Succeed())
	g.Expect(run(t.Context(), nil, variables("123456789012", "5"), &out, &messages)).To(MatchError(ContainSubstring("usage")))
}
