package aws

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/testenv"
)

// withoutPermission are the calls that every identity may make. sts:AssumeRole is not one of
// them: a role of another account needs assume_role_arns of modules/capt-iam.
var withoutPermission = []string{"sts:GetCallerIdentity"}

// checkCalls checks that the policies of modules/capt-iam allow every call that CAPT and
// the provider made. It runs after a test, which may have failed.
func (e *emulator) checkCalls() {
	e.t.Helper()
	root, err := testenv.Root()
	e.Expect(err).NotTo(HaveOccurred())
	text, err := os.ReadFile(filepath.Join(root, "modules", "capt-iam", "actions.json"))
	e.Expect(err).NotTo(HaveOccurred())
	var allowed map[string][]string
	e.Expect(json.Unmarshal(text, &allowed)).To(Succeed())
	response, err := http.Get(e.url + "/emulator/calls")
	if err != nil {
		e.t.Logf("The emulator has ended: %v", err)
		return
	}
	defer func() { _ = response.Body.Close() }()
	var seen, missing []string
	e.Expect(json.NewDecoder(response.Body).Decode(&seen)).To(Succeed())
	for _, call := range seen {
		service, action, _ := strings.Cut(call, ":")
		if !slices.Contains(withoutPermission, call) && !slices.Contains(e.administrator, call) && !slices.Contains(allowed[service], action) {
			missing = append(missing, call)
		}
	}
	if len(missing) > 0 {
		e.t.Errorf("modules/capt-iam/actions.json does not allow %s: add what is needed", strings.Join(missing, ", "))
	}
}
