package alerts

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	job  = `job="capt-controller-manager-metrics-service"`
	hour = time.Hour
	day  = 24 * time.Hour
)

// seconds writes a time as the value of a series.
func seconds(d time.Duration) string { return fmt.Sprintf("%d", int(d.Seconds())) }

// Each alert has a case in which it fires and one in which it does not.
var cases = []struct {
	alert  string
	name   string
	series string
	after  time.Duration
	// want are the beginnings of the alerts of this name that fire.
	want []string
}{
	{alert: "CAPTManagerDown", name: "no manager answers", series: `up{` + job + `} 0x30`, after: 15 * time.Minute, want: []string{"CAPTManagerDown{"}},
	{alert: "CAPTManagerDown", name: "nothing is scraped", series: `other 0x30`, after: 15 * time.Minute, want: []string{"CAPTManagerDown{"}},
	{alert: "CAPTManagerDown", name: "one of two answers", series: "up{pod=\"a\"," + job + "} 1x30\nup{pod=\"b\"," + job + "} 0x30", after: 15 * time.Minute},
	{alert: "CAPTReconcileErrors", name: "an error each minute", series: `controller_runtime_reconcile_errors_total{controller="captcluster",` + job + `} 0+1x60`, after: 50 * time.Minute, want: []string{`CAPTReconcileErrors{controller="captcluster"}: Controller captcluster fails`}},
	{alert: "CAPTReconcileErrors", name: "an error each ten minutes", series: `controller_runtime_reconcile_errors_total{controller="captcluster",` + job + `} 0x10 1x10 2x10 3x10 4x10`, after: 50 * time.Minute},
	{alert: "CAPTReconcileErrors", name: "another manager", series: `controller_runtime_reconcile_errors_total{controller="x",job="other"} 0+1x60`, after: 50 * time.Minute},
	{alert: "CAPTCertificateExpiring", name: "not renewed", series: `capt_certificate_expiry_timestamp_seconds{use="webhooks"} ` + seconds(5*day) + `x90`, after: 80 * time.Minute, want: []string{`CAPTCertificateExpiring{use="webhooks"}: The manager's certificate of the webhooks expires in 4d 22h`}},
	{alert: "CAPTCertificateExpiring", name: "valid for a month", series: `capt_certificate_expiry_timestamp_seconds{use="webhooks"} ` + seconds(30*day) + `x90`, after: 80 * time.Minute},
	{alert: "CAPTDeletionStuck", name: "for three hours, seen by two managers", series: "capt_deletion_timestamp_seconds{kind=\"CAPTCluster\",namespace=\"a\",name=\"x\",pod=\"1\"} 60x200\ncapt_deletion_timestamp_seconds{kind=\"CAPTCluster\",namespace=\"a\",name=\"x\",pod=\"2\"} 60x200", after: 3 * hour, want: []string{`CAPTDeletionStuck{kind="CAPTCluster", name="x", namespace="a"}: CAPTCluster x has been deleting for 2h 59m`}},
	{alert: "CAPTDeletionStuck", name: "for an hour", series: `capt_deletion_timestamp_seconds{kind="CAPTCluster",namespace="a",name="x"} ` + seconds(2*hour) + `x200`, after: 3 * hour},
	{alert: "CAPTKubeconfigExpired", name: "ten minutes ago", series: `capt_kubeconfig_expiry_timestamp_seconds{namespace="a",name="x",source="EKS"} 300x20`, after: 15 * time.Minute, want: []string{`CAPTKubeconfigExpired{name="x", namespace="a"}: The kubeconfig of control plane x has expired`}},
	{alert: "CAPTKubeconfigExpired", name: "renewed every ten minutes", series: `capt_kubeconfig_expiry_timestamp_seconds{namespace="a",name="x",source="EKS"} 840x10 1440x10 2040x10`, after: 30 * time.Minute},
	{alert: "CAPTKubeconfigExpired", name: "one replica has an old cache", series: "capt_kubeconfig_expiry_timestamp_seconds{namespace=\"a\",name=\"x\",source=\"EKS\",pod=\"1\"} 60x20\ncapt_kubeconfig_expiry_timestamp_seconds{namespace=\"a\",name=\"x\",source=\"EKS\",pod=\"2\"} 3600x20", after: 15 * time.Minute},
	{alert: "CAPTKubeconfigExpiring", name: "of a module", series: `capt_kubeconfig_expiry_timestamp_seconds{namespace="a",name="x",source="Output"} ` + seconds(2*day) + `x90`, after: 80 * time.Minute, want: []string{`CAPTKubeconfigExpiring{name="x", namespace="a"}: The kubeconfig of control plane x expires in 1d 22h`}},
	{alert: "CAPTKubeconfigExpiring", name: "that CAPT renews", series: `capt_kubeconfig_expiry_timestamp_seconds{namespace="a",name="x",source="EKS"} ` + seconds(2*hour) + `x90`, after: 80 * time.Minute},
	{alert: "CAPTKubeconfigExpiring", name: "that has expired", series: `capt_kubeconfig_expiry_timestamp_seconds{namespace="a",name="x",source="Output"} 60x90`, after: 80 * time.Minute},
	{alert: "CAPTAddonFailing", name: "between attempts", series: `capt_addon_failing{namespace="a",addon="flux",cluster="c",reason="ApplyFailed"} 1 0 0 1 0 0 1 0 0 1 0 0 1 0 0 1 0 0 1 0 0`, after: 18 * time.Minute, want: []string{`CAPTAddonFailing{addon="flux", cluster="c", namespace="a", reason="ApplyFailed"}: Add-on flux fails in cluster c (ApplyFailed)`}},
	{alert: "CAPTAddonFailing", name: "once", series: `capt_addon_failing{namespace="a",addon="flux",cluster="c",reason="ApplyFailed"} 1 0x20`, after: 18 * time.Minute},
	{alert: "CAPTAddonNotReady", name: "in two clusters", series: `capt_addon_clusters{namespace="a",addon="flux",ready="false"} 2x60`, after: 45 * time.Minute, want: []string{`CAPTAddonNotReady{addon="flux", namespace="a"}: Add-on flux is not ready in 2 clusters`}},
	{alert: "CAPTAddonNotReady", name: "during a rollout", series: `capt_addon_clusters{namespace="a",addon="flux",ready="false"} 2x20 0x40`, after: 45 * time.Minute},
	{alert: "CAPTAddonFlapping", name: "every two minutes", series: `capt_addon_failures_total{namespace="a",addon="flux",reason="Drifted"} 0+0.5x60`, after: hour, want: []string{`CAPTAddonFlapping{addon="flux", namespace="a", reason="Drifted"}: Add-on flux has failed 30`}},
	{alert: "CAPTAddonFlapping", name: "twice", series: `capt_addon_failures_total{namespace="a",addon="flux",reason="Drifted"} 0x10 1x10 2x40`, after: hour},
	{alert: "CAPTRunsFailing", name: "invalid HCL", series: `capt_run_failures_total{class="Terminal"} 0x10 1x10`, after: 12 * time.Minute, want: []string{`CAPTRunsFailing{class="Terminal"}: Terraform runs failed`}},
	{alert: "CAPTRunsFailing", name: "throttled", series: `capt_run_failures_total{class="Transient"} 0x10 1x10`, after: 12 * time.Minute},
	{alert: "CAPTRunsRetrying", name: "throttled for an hour", series: `capt_run_failures_total{class="Transient"} 0+1x90`, after: hour, want: []string{`CAPTRunsRetrying{class="Transient"}: Terraform runs fail repeatedly (Transient)`}},
	{alert: "CAPTRunsRetrying", name: "a few times", series: `capt_run_failures_total{class="Transient"} 0x10 3x80`, after: hour},
	{alert: "CAPTPolicyDenied", name: "a plan", series: `capt_policy_violations_total{kind="WorkspacePolicy",policy="keep",action="Deny"} 0x10 1x10`, after: 12 * time.Minute, want: []string{`CAPTPolicyDenied{kind="WorkspacePolicy", policy="keep"}: WorkspacePolicy keep denied plans`}},
	{alert: "CAPTPolicyDenied", name: "only a warning", series: `capt_policy_violations_total{kind="WorkspacePolicy",policy="keep",action="Warn"} 0x10 1x10`, after: 12 * time.Minute},
	{alert: "CAPTRunsQueued", name: "for ten minutes each", series: "capt_runs_queued 5x60\ncapt_run_queue_seconds_bucket{le=\"300\"} 0x60\ncapt_run_queue_seconds_bucket{le=\"900\"} 0+1x60\ncapt_run_queue_seconds_bucket{le=\"+Inf\"} 0+1x60", after: 50 * time.Minute, want: []string{"CAPTRunsQueued{}: Terraform runs wait several minutes"}},
	{alert: "CAPTRunsQueued", name: "and none waits now", series: "capt_runs_queued 0x60\ncapt_run_queue_seconds_bucket{le=\"300\"} 0x60\ncapt_run_queue_seconds_bucket{le=\"900\"} 0+1x60\ncapt_run_queue_seconds_bucket{le=\"+Inf\"} 0+1x60", after: 50 * time.Minute},
	{alert: "CAPTRunsHang", name: "none ends", series: "capt_runs_in_flight 2x300\ncapt_run_duration_seconds_count{operation=\"Apply\",outcome=\"Succeeded\"} 7x300", after: 5 * hour, want: []string{"CAPTRunsHang{}: Terraform runs are in progress"}},
	{alert: "CAPTRunsHang", name: "one ends each hour", series: "capt_runs_in_flight 2x300\ncapt_run_duration_seconds_count{operation=\"Apply\",outcome=\"Succeeded\"} 0x59 1x59 2x59 3x59 4x59", after: 290 * time.Minute},
	{alert: "CAPTDrifted", name: "of one workspace", series: "capt_drifted_resources{namespace=\"a\",name=\"vpc\"} 3x30\ncapt_drifted_resources{namespace=\"a\",name=\"eks\"} 0x30", after: 20 * time.Minute, want: []string{`CAPTDrifted{name="vpc", namespace="a"}: 3 resources of workspace vpc differ`}},
	{alert: "CAPTDrifted", name: "repaired", series: `capt_drifted_resources{namespace="a",name="vpc"} 3x10 0x20`, after: 20 * time.Minute},
}

func rulesFile(t *testing.T) string {
	t.Helper()
	file, err := writeRules("../../../config/prometheus/alerts.yaml", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestAlerts(t *testing.T) {
	file := rulesFile(t)
	for _, tc := range cases {
		t.Run(tc.alert+" "+tc.name, func(t *testing.T) {
			all, err := firing(file, tc.series, tc.after)
			if err != nil {
				t.Fatal(err)
			}
			found := slices.DeleteFunc(all, func(alert string) bool { return !strings.HasPrefix(alert, tc.alert+"{") })
			if len(found) != len(tc.want) {
				t.Fatalf("firing: %q, want %q", found, tc.want)
			}
			for i, want := range tc.want {
				if !strings.HasPrefix(found[i], want) {
					t.Errorf("firing: %q, want %q", found[i], want)
				}
			}
		})
	}
}

func TestAlerts_haveCases(t *testing.T) {
	names, err := alertNames(rulesFile(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		var fires, silent bool
		for _, tc := range cases {
			if tc.alert == name {
				fires, silent = fires || len(tc.want) > 0, silent || len(tc.want) == 0
			}
		}
		if !fires || !silent {
			t.Errorf("%s: fires in a case: %v, does not fire in a case: %v", name, fires, silent)
		}
	}
}
