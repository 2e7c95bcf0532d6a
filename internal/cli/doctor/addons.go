package doctor

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/ptr"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/client/text"
)

// addonFixes are the reasons of add-ons that stay until a user acts, with the
// fix. %[1]s is the namespace, %[2]s the name.
var addonFixes = map[string]string{
	addonsv1.ApplyFailedReason:        "captctl addon status %[2]s -n %[1]s, then captctl addon trigger %[2]s -n %[1]s",
	addonsv1.TimedOutReason:           "captctl addon status %[2]s -n %[1]s, then captctl addon trigger %[2]s -n %[1]s",
	addonsv1.ReleaseStalledReason:     "fix the values of the release, then captctl addon trigger %[2]s -n %[1]s",
	addonsv1.MissingKeyReason:         "kubectl edit captaddon -n %[1]s %[2]s: change valuesKey, or set a default",
	addonsv1.InvalidTargetPathReason:  "kubectl edit captaddon -n %[1]s %[2]s: change targetPath",
	addonsv1.VersionUnsupportedReason: "install a version that the message names, with captctl addon install -n %[1]s %[2]s --version VERSION for a built-in add-on; if it names none, use a version of CAPT that knows one. The add-on keeps running",
	addonsv1.InvalidManifestReason:    "kubectl edit captaddon -n %[1]s %[2]s: fix the manifest, placeholder or selector in the message",
	addonsv1.TooLargeReason:           "split the manifests into two add-ons, or use shorter outputs",
	addonsv1.EmptyReason:              "add objects to the ConfigMap or Secret in the message",
	addonsv1.InvalidSecretReason:      "fix the key of the Secret in the message",
	addonsv1.NotAllowedReason:         "kubectl edit captaddon -n %[1]s %[2]s: use another repository, or ask the administrator to add the host to --allowed-chart-hosts",
	addonsv1.SourceNotFoundReason:     "create the ConfigMap or Secret in the message; captctl addon install -n %[1]s %[2]s creates those of a built-in add-on",
	addonsv1.DriftedReason:            "find what changes the objects: kubectl get events -n %[1]s --field-selector involvedObject.kind=CAPTAddon,involvedObject.name=%[2]s",
	addonsv1.DependencyCycleReason:    "kubectl edit captaddon -n %[1]s %[2]s: remove an entry of dependsOn",
}

// addons reports failed add-ons.
func (d *Doctor) addons(ctx context.Context) ([]Result, error) {
	var addons addonsv1.CAPTAddonList
	if err := d.list(ctx, &addons); err != nil {
		return nil, err
	}
	if len(addons.Items) == 0 {
		return []Result{{Status: OK, Message: "no add-ons"}}, nil
	}
	var problems []Result
	for i := range addons.Items {
		problems = append(problems, addonProblems(&addons.Items[i], d.Now())...)
	}
	return orOK(problems, "%s, none failed", text.Count(len(addons.Items), "add-on")), nil
}

// addonProblems returns the clusters in which an add-on failed.
func addonProblems(addon *addonsv1.CAPTAddon, now time.Time) []Result {
	var problems []Result
	for _, cluster := range addon.Status.Clusters {
		fix, failed := addonFixes[cluster.Reason]
		if !failed || ptr.Deref(cluster.Ready, false) {
			continue
		}
		problems = append(problems, Result{
			Status: Fail, Object: objectName("CAPTAddon", addon),
			Message: fmt.Sprintf("in cluster %s for %s: %s: %s", cluster.Name, text.Age(now, cluster.Since.Time), cluster.Reason, cluster.Message),
			Fix:     fmt.Sprintf(fix, addon.Namespace, addon.Name),
		})
	}
	return problems
}
