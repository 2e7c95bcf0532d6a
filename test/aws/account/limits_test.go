package account

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func environment(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

func TestReadLimits_needsAnAccountARegionAndABudget(t *testing.T) {
	complete := map[string]string{AccountVariable: "123456789012", RegionVariable: "eu-central-1", BudgetVariable: "5"}
	l, err := ReadLimits(environment(complete))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(l).To(Equal(Limits{Account: "123456789012", Region: "eu-central-1", Budget: 5}))
	for name, test := range map[string]struct{ variable, value, want string }{
		"no account":         {AccountVariable, "", `ACCOUNT "" is not the id of an account`},
		"a name":             {AccountVariable, "production", `ACCOUNT "production" is not the id of an account`},
		"two accounts":       {AccountVariable, "123456789012 210987654321", "is not the id of an account"},
		"no region":          {RegionVariable, "", `REGION "" is not a region`},
		"a zone":             {RegionVariable, "eu-central-1a", "is not a region"},
		"no budget":          {BudgetVariable, "", `BUDGET "" is not an amount between 3 and 50 USD`},
		"too little":         {BudgetVariable, "1.5", "is not an amount between"},
		"too much":           {BudgetVariable, "500", "is not an amount between"},
		"no limit":           {BudgetVariable, "+Inf", "is not an amount between"},
		"not a number":       {BudgetVariable, "NaN", "is not an amount between"},
		"a negative one":     {BudgetVariable, "-5", "is not an amount between"},
		"with its currency":  {BudgetVariable, "5 USD", "is not an amount between"},
		"shows what to type": {AccountVariable, "", "make e2e-aws REAL=1 ACCOUNT=123456789012 REGION=eu-central-1 BUDGET=5"},
	} {
		t.Run(name, func(t *testing.T) {
			values := map[string]string{}
			maps.Copy(values, complete)
			values[test.variable] = test.value
			_, err := ReadLimits(environment(values))
			NewWithT(t).Expect(err).To(MatchError(And(HavePrefix("nothing was created"), ContainSubstring(test.want))))
		})
	}
}

func TestLimits_endARunBeforeItExceedsItsBudget(t *testing.T) {
	g := NewWithT(t)
	for budget := 3.0; budget <= 50; budget++ {
		l := Limits{Budget: budget}
		g.Expect(l.Total().Hours() * hourlyPrice).To(BeNumerically("<=", budget))
		g.Expect(l.Work()).To(BeNumerically(">=", time.Hour), "a cluster needs time to become available")
		g.Expect(l.Total()-l.Work()).To(Equal(2*time.Hour), "the deletion and the sweep need an hour each")
	}
}

// accountOf returns an account whose STS answers with an account id.
func accountOf(t *testing.T, id string) *Account {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/xml")
		_, _ = w.Write([]byte(`<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult><Account>` + id + `</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`))
	}))
	t.Cleanup(server.Close)
	t.Setenv("AWS_ENDPOINT_URL", server.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	a, err := Open(t.Context(), "eu-central-1")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return a
}

func TestCheck_refusesAnotherAccount(t *testing.T) {
	g := NewWithT(t)
	l := Limits{Account: "123456789012", Region: "eu-central-1", Budget: 5}
	g.Expect(accountOf(t, "123456789012").Check(t.Context(), l, time.Now())).To(Succeed())
	g.Expect(accountOf(t, "210987654321").Check(t.Context(), l, time.Now())).To(MatchError("nothing was created: the credentials are those of account 210987654321, not of account 123456789012"))
	g.Expect(accountOf(t, "").Check(t.Context(), l, time.Now())).To(MatchError(ContainSubstring("nothing was created")))
}

func TestRun_ownsOnlyItsNames(t *testing.T) {
	g := NewWithT(t)
	run, err := ParseRun("abc123")
	g.Expect(err).NotTo(HaveOccurred())
	for name, want := range map[string]bool{
		"capt-e2e-abc123": true, "KarpenterNode-capt-e2e-abc123-eu-central-1": true, "capt-e2e-abc123-cluster": true,
		"Interruption, for Karpenter in the EKS cluster capt-e2e-abc123": true,
		"capt-e2e-abc1234": false, "capt-e2e-abc": false, "production": false, "": false,
	} {
		g.Expect(run.owns(name)).To(Equal(want), name)
	}
	for _, id := range []string{"", "*", "abc", "a-bcdef", "ABCDEF", "abcdefghijklm"} {
		_, err := ParseRun(id)
		g.Expect(err).To(HaveOccurred(), id)
	}
}

func TestSweep_endsWhenTheAccountCannotBeSearched(t *testing.T) {
	left, err := accountOf(t, "123456789012").Sweep(t.Context(), Run{ID: "abc123"}, time.Millisecond, func(string, ...any) {})
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("the account cannot be searched completely")))
	NewWithT(t).Expect(left).To(BeEmpty())
}

func TestSweep_refusesARunWithoutAnID(t *testing.T) {
	_, err := accountOf(t, "123456789012").Sweep(t.Context(), Run{}, time.Second, t.Logf)
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("is not the id of a run")))
}
