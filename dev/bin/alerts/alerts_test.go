package alerts

import (
	"fmt"
	"slices"
	"strconv"
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

// errorsOf returns a series of failed reconciles.
func errorsOf(controller, job, values string) string {
	return fmt.Sprintf(`controller_runtime_reconcile_errors_total{controller=%q,namespace="capt-system",%s} %s`, controller, job, values)
}

// backoff returns how often an object has failed after each minute, if it always fails:
// controller-runtime waits 5 ms at first, then twice as long each time, up to 1000 s.
func backoff(during time.Duration) string {
	var values []string
	failures, next, wait := 0, 30*time.Second, 5*time.Millisecond
	for at := time.Duration(0); at <= during; at += time.Minute {
		for next <= at {
			failures++
			next, wait = next+wait, min(2*wait, 1000*time.Second)
		}
		values = append(values, strconv.Itoa(failures))
	}
	return strings.Join(values, " ")
}

// restarts returns the start times of a container that runs for a number of minutes, is
// killed, and starts again after a pause of some minutes. While it is down it has no series.
func restarts(up, down int, during time.Duration) string {
	var values []string
	for at := 0; at <= int(during.Minutes()); at++ {
		if cycle := up + down; at%cycle < up {
			values = append(values, strconv.Itoa(60*(at-at%cycle)))
		} else {
			values = append(values, "_")
		}
	}
	return strings.Join(values, " ")
}

// started returns the series of a pod's start times.
func started(pod, values string) string {
	return fmt.Sprintf(`process_start_time_seconds{namespace="capt-system",pod=%q,%s} %s`, pod, job, values)
}

// leading returns the series of a pod that leads, or not.
func leading(pod, values string) string {
	return fmt.Sprintf(`leader_election_master_status{namespace="capt-system",name="capt",pod=%q,%s} %s`, pod, job, values)
}

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
	{alert: "CAPTManagerRestarting", name: "killed a minute after each start", series: started("a", restarts(1, 5, 2*hour)), after: 2 * hour, want: []string{`CAPTManagerRestarting{namespace="capt-system"}: A CAPT manager in capt-system has restarted`}},
	{alert: "CAPTManagerRestarting", name: "killed after ten minutes each", series: started("a", "0x120") + "\n" + started("b", restarts(10, 1, 2*hour)), after: 2 * hour, want: []string{`CAPTManagerRestarting{namespace="capt-system"}`}},
	{alert: "CAPTManagerRestarting", name: "three upgrades", series: started("a", "0x30 _x90") + "\n" + started("b", "_x29 1800x30 _x60") + "\n" + started("c", "_x59 3600x30 _x30") + "\n" + started("d", "_x89 5400x30"), after: 2 * hour},
	{alert: "CAPTManagerRestarting", name: "twice in an hour", series: started("a", "0x40 2400x20 3600x20"), after: 75 * time.Minute},
	{alert: "CAPTManagerRestarting", name: "of another program", series: strings.ReplaceAll(started("a", restarts(1, 5, 2*hour)), job, `job="other"`), after: 2 * hour},
	{alert: "CAPTManagerNotLeading", name: "both replicas wait", series: leading("a", "0x30") + "\n" + leading("b", "0x30"), after: 15 * time.Minute, want: []string{`CAPTManagerNotLeading{namespace="capt-system"}: No CAPT manager in capt-system leads`}},
	{alert: "CAPTManagerNotLeading", name: "one of two leads", series: leading("a", "0x30") + "\n" + leading("b", "1x30"), after: 15 * time.Minute},
	{alert: "CAPTManagerNotLeading", name: "the other takes over", series: leading("a", "1x10 _x20") + "\n" + leading("b", "0x11 1x20"), after: 25 * time.Minute},
	{alert: "CAPTManagerNotLeading", name: "without an election", series: `up{` + job + `} 1x30`, after: 15 * time.Minute},
	{alert: "CAPTReconcileErrors", name: "an object always fails", series: errorsOf("captcluster", job, backoff(3*hour)), after: 90 * time.Minute, want: []string{`CAPTReconcileErrors{controller="captcluster", namespace="capt-system"}: Controller captcluster fails`}},
	{alert: "CAPTReconcileErrors", name: "and is still tried every 1000 seconds", series: errorsOf("captcluster", job, backoff(8*hour)), after: 8 * hour, want: []string{`CAPTReconcileErrors{controller="captcluster"`}},
	{alert: "CAPTReconcileErrors", name: "in the manager of another provider", series: errorsOf("captaddon", `job="capt-addon-controller-manager-metrics-service"`, backoff(3*hour)), after: 90 * time.Minute, want: []string{`CAPTReconcileErrors{controller="captaddon"`}},
	{alert: "CAPTReconcileErrors", name: "an object recovers after half an hour", series: errorsOf("captcluster", job, backoff(hour/2)+" 19x90"), after: 90 * time.Minute},
	{alert: "CAPTReconcileErrors", name: "an error each half hour", series: errorsOf("captcluster", job, "0x29 1x29 2x29 3x29 4x29 5x29"), after: 170 * time.Minute},
	{alert: "CAPTReconcileErrors", name: "another manager", series: errorsOf("x", `job="other"`, backoff(3*hour)), after: 2 * hour},
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
	{alert: "CAPTStandardSupportEnding", name: "in 59 days", series: `capt_eks_standard_support_end_timestamp_seconds{namespace="a",name="x",version="1.34"} ` + seconds(59*day) + `x90`, after: 80 * time.Minute, want: []string{`CAPTStandardSupportEnding{name="x", namespace="a", version="1.34"}: EKS ends the standard support of Kubernetes 1.34, the version of control plane x`}},
	{alert: "CAPTStandardSupportEnding", name: "ended", series: `capt_eks_standard_support_end_timestamp_seconds{namespace="a",name="x",version="1.33"} 60x90`, after: 80 * time.Minute, want: []string{`CAPTStandardSupportEnding{name="x", namespace="a", version="1.33"}`}},
	{alert: "CAPTStandardSupportEnding", name: "in 61 days", series: `capt_eks_standard_support_end_timestamp_seconds{namespace="a",name="x",version="1.34"} ` + seconds(61*day) + `x90`, after: 80 * time.Minute},
	{alert: "CAPTAddonFailing", name: "between attempts", series: `capt_addon_failing{namespace="a",addon="flux",cluster="c",reason="ApplyFailed"} 1 0 0 1 0 0 1 0 0 1 0 0 1 0 0 1 0 0 1 0 0`, after: 18 * time.Minute, want: []string{`CAPTAddonFailing{addon="flux", cluster="c", namespace="a", reason="ApplyFailed"}: Add-on flux fails in cluster c (ApplyFailed)`}},
	{alert: "CAPTAddonFailing", name: "once", series: `capt_addon_failing{namespace="a",addon="flux",cluster="c",reason="ApplyFailed"} 1 0x20`, after: 18 * time.Minute},
	{alert: "CAPTAddonFailing", name: "pods never become ready", series: `capt_addon_failing{namespace="a",addon="flux",cluster="c",reason="TimedOut"} _x14 1x60`, after: 30 * time.Minute, want: []string{`CAPTAddonFailing{addon="flux", cluster="c", namespace="a", reason="TimedOut"}`}},
	{alert: "CAPTAddonNotReady", name: "a cluster waits", series: `capt_addon_unready_timestamp_seconds{namespace="a",addon="flux"} 60x60`, after: 45 * time.Minute, want: []string{`CAPTAddonNotReady{addon="flux", namespace="a"}: Add-on flux has not been ready in a cluster for 44m 0s`}},
	{alert: "CAPTAddonNotReady", name: "a new cluster every 20 minutes", series: "capt_addon_clusters{namespace=\"a\",addon=\"flux\",ready=\"false\"} 1x200\ncapt_addon_unready_timestamp_seconds{namespace=\"a\",addon=\"flux\"} 0x24 1200x19 2400x19 3600x19 4800x19 6000x19", after: 2 * hour},
	{alert: "CAPTAddonNotReady", name: "all are ready again", series: `capt_addon_unready_timestamp_seconds{namespace="a",addon="flux"} 0x40 _x20`, after: 50 * time.Minute},
	{alert: "CAPTAddonFlapping", name: "every two minutes", series: `capt_addon_failures_total{namespace="a",addon="flux",reason="Drifted"} 0+0.5x60`, after: hour, want: []string{`CAPTAddonFlapping{addon="flux", namespace="a", reason="Drifted"}: Add-on flux has failed 30`}},
	{alert: "CAPTAddonFlapping", name: "twice", series: `capt_addon_failures_total{namespace="a",addon="flux",reason="Drifted"} 0x10 1x10 2x40`, after: hour},
	{alert: "CAPTRunsFailing", name: "for two hours, seen by two managers", series: "capt_workspace_failing{namespace=\"a\",name=\"vpc\",reason=\"RunFailed\",pod=\"1\"} 1x130\ncapt_workspace_failing{namespace=\"a\",name=\"vpc\",reason=\"RunFailed\",pod=\"2\"} 1x130", after: 2 * hour, want: []string{`CAPTRunsFailing{name="vpc", namespace="a", reason="RunFailed"}: The run of workspace vpc failed`}},
	{alert: "CAPTRunsFailing", name: "corrected", series: `capt_workspace_failing{namespace="a",name="vpc",reason="RunFailed"} 1x10 _x10`, after: 18 * time.Minute},
	{alert: "CAPTRunsRetrying", name: "throttled for an hour", series: `capt_run_failures_total{class="Transient"} 0+1x90`, after: hour, want: []string{`CAPTRunsRetrying{class="Transient"}: Terraform runs fail repeatedly (Transient)`}},
	{alert: "CAPTRunsRetrying", name: "a few times", series: `capt_run_failures_total{class="Transient"} 0x10 3x80`, after: hour},
	{alert: "CAPTPolicyDenied", name: "a plan", series: `capt_policy_violations_total{kind="WorkspacePolicy",policy="keep",action="Deny"} 0x10 1x10`, after: 12 * time.Minute, want: []string{`CAPTPolicyDenied{kind="WorkspacePolicy", policy="keep"}: WorkspacePolicy keep denied plans`}},
	{alert: "CAPTPolicyDenied", name: "only a warning", series: `capt_policy_violations_total{kind="WorkspacePolicy",policy="keep",action="Warn"} 0x10 1x10`, after: 12 * time.Minute},
	{alert: "CAPTRunsQueued", name: "while no run ever gets a slot", series: "capt_runs_queued 5x60\ncapt_oldest_queued_run_seconds{pod=\"1\"} 0+60x60\ncapt_oldest_queued_run_seconds{pod=\"2\"} 0x60", after: 30 * time.Minute, want: []string{"CAPTRunsQueued{}: Terraform runs wait several minutes"}},
	{alert: "CAPTRunsQueued", name: "for a short time each", series: "capt_runs_queued 5x60\ncapt_oldest_queued_run_seconds 0 60 120 180 240 60 120 180 240 60 120 180 240 60 120 180 240 60 120 180 240", after: 20 * time.Minute},
	{alert: "CAPTRunsHang", name: "one of two", series: "capt_run_start_timestamp_seconds{namespace=\"a\",name=\"vpc\"} 60x200\ncapt_run_start_timestamp_seconds{namespace=\"a\",name=\"eks\"} " + seconds(2*hour) + "x200", after: 3 * hour, want: []string{`CAPTRunsHang{name="vpc", namespace="a"}: The run of workspace vpc has not ended for 2h 59m`}},
	{alert: "CAPTRunsHang", name: "a run each hour", series: `capt_run_start_timestamp_seconds{namespace="a",name="vpc"} 0x59 3600x59 7200x59 10800x59`, after: 230 * time.Minute},
	{alert: "CAPTStateNotSaved", name: "seen by two managers", series: "capt_unsaved_states{namespace=\"a\",name=\"vpc\",reason=\"StateNotMerged\",pod=\"1\"} 1x30\ncapt_unsaved_states{namespace=\"a\",name=\"vpc\",reason=\"StateNotMerged\",pod=\"2\"} 1x30", after: 20 * time.Minute, want: []string{`CAPTStateNotSaved{name="vpc", namespace="a", reason="StateNotMerged"}: A state of workspace vpc is not saved (StateNotMerged)`}},
	{alert: "CAPTStateNotSaved", name: "the next run saves it", series: `capt_unsaved_states{namespace="a",name="vpc",reason="StateRescued"} 1x10 _x20`, after: 20 * time.Minute},
	{alert: "CAPTDrifted", name: "of one workspace", series: "capt_drifted_resources{namespace=\"a\",name=\"vpc\"} 3x30\ncapt_drifted_resources{namespace=\"a\",name=\"eks\"} 0x30", after: 20 * time.Minute, want: []string{`CAPTDrifted{name="vpc", namespace="a"}: 3 resources of workspace vpc differ`}},
	{alert: "CAPTDrifted", name: "repaired", series: `capt_drifted_resources{namespace="a",name="vpc"} 3x10 0x20`, after: 20 * time.Minute},
	{alert: "CAPTDrifted", name: "seen by two managers", series: "capt_drifted_resources{namespace=\"a\",name=\"vpc\",pod=\"1\"} 3x30\ncapt_drifted_resources{namespace=\"a\",name=\"vpc\",pod=\"2\"} 3x30", after: 20 * time.Minute, want: []string{`CAPTDrifted{name="vpc", namespace="a"}: 3 resources`}},
	{alert: "CAPTDriftUnknown", name: "the repeated checks fail, too", series: "capt_drift_check_failing{namespace=\"a\",name=\"vpc\",pod=\"1\"} _x60 1x30\ncapt_drift_check_failing{namespace=\"a\",name=\"vpc\",pod=\"2\"} _x60 1x30", after: 75 * time.Minute, want: []string{`CAPTDriftUnknown{name="vpc", namespace="a"}: The drift checks of workspace vpc fail`}},
	{alert: "CAPTDriftUnknown", name: "a requested check succeeds", series: `capt_drift_check_failing{namespace="a",name="vpc"} 1x8 _x60`, after: 15 * time.Minute},
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

// Each provider that clusterctl installs has a manager, and its alert names it.
func TestProviderAlerts(t *testing.T) {
	file, err := writeRules("../../../config/providers/prometheus/alerts.yaml", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	all, err := firing(file, `up{job="capt-control-plane-controller-manager-metrics-service"} 1x30
up{job="capt-bootstrap-controller-manager-metrics-service"} 0x30`, 15*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`CAPTManagerDown{provider="bootstrap"}: No manager of the bootstrap provider answers`,
		`CAPTManagerDown{provider="addon"}: No manager of the add-on provider answers`,
	}
	if !slices.Equal(all, want) {
		t.Errorf("firing: %q, want %q", all, want)
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
