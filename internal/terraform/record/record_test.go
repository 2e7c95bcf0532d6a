package record_test

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)

func newRun(g Gomega) *corev1.Secret {
	secret, err := record.NewRun(&terraform.Request{
		RunID: "hello-r1", Operation: terraform.OperationPlanAndApply,
		Env: map[string]string{"TOKEN": "s3cr3t"}, Files: map[string][]byte{"binary": {0xff, 0, 1}},
	}, metav1.ObjectMeta{Namespace: "n", Labels: map[string]string{"a": "b"}})
	g.Expect(err).NotTo(HaveOccurred())
	return secret
}

func TestRun_requestRoundTrips(t *testing.T) {
	g := NewWithT(t)
	secret := newRun(g)

	g.Expect(secret.Name).To(Equal("capt-run-hello-r1"))
	g.Expect(secret.Namespace).To(Equal("n"))
	g.Expect(secret.Labels).To(HaveKeyWithValue("a", "b"))
	g.Expect(record.Claimed(secret)).To(BeFalse())
	g.Expect(record.Finished(secret)).To(BeFalse())
	request, err := record.Request(secret)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(request.RunID).To(Equal("hello-r1"))
	g.Expect(request.Env).To(HaveKeyWithValue("TOKEN", "s3cr3t"))
	g.Expect(request.Files).To(HaveKeyWithValue("binary", []byte{0xff, 0, 1}))
}

func TestRun_isEmptyBeforeItIsClaimed(t *testing.T) {
	g := NewWithT(t)
	secret := newRun(g)

	g.Expect(record.RunIdentity(secret)).To(BeNil())
	g.Expect(record.Progress(secret)).To(BeNil())
	g.Expect(record.Result(secret)).To(BeNil())
	g.Expect(record.Log(secret)).To(BeNil())
	_, err := record.Request(&corev1.Secret{})
	g.Expect(err).To(MatchError(ContainSubstring("key request is missing")))
}

func TestRun_errorsNameTheCorruptKey(t *testing.T) {
	g := NewWithT(t)
	broken := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "capt-run-x"}, Data: map[string][]byte{
		"request": []byte("s3cr3t, not gzip"), "identity": []byte("{s3cr3t"), "progress": []byte("["), "result": []byte("not gzip"), "log": []byte("not gzip"),
	}}
	_, requestErr := record.Request(broken)
	_, identityErr := record.RunIdentity(broken)
	_, progressErr := record.Progress(broken)
	_, resultErr := record.Result(broken)
	_, logErr := record.Log(broken)
	for key, err := range map[string]error{"request": requestErr, "identity": identityErr, "progress": progressErr, "result": resultErr} {
		g.Expect(err).To(MatchError(And(ContainSubstring(key), ContainSubstring("capt-run-x"), Not(ContainSubstring("s3cr3t")))))
	}
	g.Expect(logErr).To(HaveOccurred())
	g.Expect(record.Finished(broken)).To(BeTrue())
	g.Expect(record.Claimed(broken)).To(BeTrue())
}

// merge applies a JSON merge patch like the API server.
func merge(g Gomega, secret *corev1.Secret, patch []byte) *corev1.Secret {
	text, err := json.Marshal(secret)
	g.Expect(err).NotTo(HaveOccurred())
	var target, change map[string]any
	g.Expect(json.Unmarshal(text, &target)).To(Succeed())
	g.Expect(json.Unmarshal(patch, &change)).To(Succeed())
	text, err = json.Marshal(mergeMaps(target, change))
	g.Expect(err).NotTo(HaveOccurred())
	changed := &corev1.Secret{}
	g.Expect(json.Unmarshal(text, changed)).To(Succeed())
	return changed
}

func mergeMaps(target, change map[string]any) map[string]any {
	target = maps.Clone(target)
	for key, value := range change {
		switch value := value.(type) {
		case nil:
			delete(target, key)
		case map[string]any:
			inner, _ := target[key].(map[string]any)
			if inner == nil {
				inner = map[string]any{}
			}
			target[key] = mergeMaps(inner, value)
		default:
			target[key] = value
		}
	}
	return target
}

func TestClaimPatch_containsTheResourceVersion(t *testing.T) {
	g := NewWithT(t)
	identity := record.Identity{Host: "h", Boot: "b", PID: 7, Started: 42, PodNamespace: "pn", PodName: "pod", PodUID: "uid"}
	patch, err := record.ClaimPatch("17", identity)
	g.Expect(err).NotTo(HaveOccurred())

	secret := merge(g, newRun(g), patch)

	g.Expect(secret.ResourceVersion).To(Equal("17"), "the API server rejects a stale claim")
	g.Expect(record.Claimed(secret)).To(BeTrue())
	g.Expect(record.Finished(secret)).To(BeFalse())
	got, err := record.RunIdentity(secret)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(*got).To(Equal(identity))
	_, err = record.Request(secret)
	g.Expect(err).NotTo(HaveOccurred(), "the request is kept until the run finishes")
}

func TestProgressPatch_roundTrips(t *testing.T) {
	g := NewWithT(t)
	progress := terraform.Progress{
		Phase: terraform.PhaseApplying, Done: 1, Total: 2, UpdatedAt: at,
		Current: []terraform.ResourceProgress{{Address: `a.b["c"]`, Action: terraform.ActionCreate, Since: at}},
	}
	withoutLog, err := record.ProgressPatch(progress, nil)
	g.Expect(err).NotTo(HaveOccurred())
	withLog, err := record.ProgressPatch(progress, []byte("one\ntwo\n"))
	g.Expect(err).NotTo(HaveOccurred())

	secret := merge(g, newRun(g), withLog)
	got, err := record.Progress(secret)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(*got).To(Equal(progress))
	g.Expect(record.Log(secret)).To(BeEquivalentTo("one\ntwo\n"))

	secret = merge(g, secret, withoutLog)
	g.Expect(record.Log(secret)).To(BeEquivalentTo("one\ntwo\n"), "an empty log leaves the recorded log unchanged")
	g.Expect(record.Finished(secret)).To(BeFalse())
}

func TestFinishPatch_removesTheRequest(t *testing.T) {
	g := NewWithT(t)
	secret := newRun(g)
	claim, err := record.ClaimPatch("1", record.Identity{PID: 1})
	g.Expect(err).NotTo(HaveOccurred())
	progress, err := record.ProgressPatch(terraform.Progress{Phase: terraform.PhasePlanning}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	result := &terraform.Result{
		RunID: "hello-r1", Operation: terraform.OperationPlanAndApply, Outcome: terraform.OutcomeSucceeded,
		Outputs: map[string]terraform.Output{"o": {Value: json.RawMessage(`"v"`), Sensitive: true}}, StartedAt: at, FinishedAt: at.Add(time.Second),
		LockFile: []byte("# lock\n"),
	}
	finish, err := record.FinishPatch(result, []byte("log\n"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(json.Valid(finish)).To(BeTrue())

	for _, patch := range [][]byte{claim, progress, finish} {
		secret = merge(g, secret, patch)
	}

	g.Expect(record.Finished(secret)).To(BeTrue())
	g.Expect(record.Claimed(secret)).To(BeTrue(), "the identity is kept")
	g.Expect(secret.Data).To(HaveLen(3), "identity, log and result")
	_, err = record.Request(secret)
	g.Expect(err).To(MatchError(ContainSubstring("key request is missing")))
	got, err := record.Result(secret)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got).To(Equal(result))
	g.Expect(record.Log(secret)).To(BeEquivalentTo("log\n"))

	repeated := merge(g, secret, finish)
	g.Expect(repeated.Data).To(Equal(secret.Data), "the patch is idempotent")
}

func TestSetResult_removesTheRequestAndKeepsTheRest(t *testing.T) {
	g := NewWithT(t)
	secret := newRun(g)
	progress, err := record.ProgressPatch(terraform.Progress{}, []byte("so far\n"))
	g.Expect(err).NotTo(HaveOccurred())
	secret = merge(g, secret, progress)

	g.Expect(record.SetResult(secret, &terraform.Result{RunID: "hello-r1", Outcome: "Lost"})).To(Succeed())

	g.Expect(record.Finished(secret)).To(BeTrue())
	g.Expect(secret.Data).NotTo(HaveKey("request"))
	g.Expect(record.Log(secret)).To(BeEquivalentTo("so far\n"))
	result, err := record.Result(secret)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.Outcome).To(BeEquivalentTo("Lost"))

	trimmed := &corev1.Secret{}
	g.Expect(record.SetResult(trimmed, &terraform.Result{RunID: "hello-r1"})).To(Succeed())
	g.Expect(record.Finished(trimmed)).To(BeTrue(), "a trimmed Secret has no data")
}

func TestLog_keepsTheLastWholeLines(t *testing.T) {
	const limit = 512 << 10
	lines := func(n int) []byte {
		var b bytes.Buffer
		for i := range n {
			fmt.Fprintf(&b, "%07d grüße\n", i)
		}
		return b.Bytes()
	}
	tests := []struct {
		name      string
		log       []byte
		truncated bool
	}{
		{"empty", nil, false},
		{"short", lines(3), false},
		{"exactly the limit", bytes.Repeat([]byte("1234567\n"), limit/8), false},
		{"one byte over the limit", bytes.Repeat([]byte("1234567\n"), limit/8+1)[7:], true},
		{"far over the limit", lines(100_000), true},
		{"a single line", bytes.Repeat([]byte("x"), limit+10), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			patch, err := record.FinishPatch(&terraform.Result{}, tt.log)
			g.Expect(err).NotTo(HaveOccurred())
			log, err := record.Log(merge(g, newRun(g), patch))
			g.Expect(err).NotTo(HaveOccurred())
			if !tt.truncated {
				g.Expect(string(log)).To(Equal(string(tt.log)))
				return
			}
			note, rest, found := bytes.Cut(log, []byte("\n"))
			g.Expect(found).To(BeTrue())
			g.Expect(string(note)).To(ContainSubstring("was dropped"))
			g.Expect(len(rest)).To(And(BeNumerically("<=", limit), BeNumerically(">", limit-100)))
			g.Expect(bytes.HasSuffix(tt.log, rest)).To(BeTrue(), "the end is kept")
			if bytes.Count(tt.log, []byte("\n")) > 0 {
				before := tt.log[:len(tt.log)-len(rest)]
				g.Expect(bytes.HasSuffix(before, []byte("\n"))).To(BeTrue(), "it starts with a whole line")
			}
		})
	}
}

func TestLabelValue_isUniquePerName(t *testing.T) {
	long := strings.Repeat("a", 199)
	NewWithT(t).Expect(record.LabelValue("hello")).To(Equal("hello"))
	NewWithT(t).Expect(record.LabelValue(long[:63])).To(Equal(long[:63]), "short names are unchanged")
	NewWithT(t).Expect(record.LabelValue(long[:38]+"-.-."+long)).To(MatchRegexp("^a{38}-[0-9a-f]{20}$"), "the prefix does not end in a dot or a dash")

	seen := map[string]string{}
	for _, name := range []string{long + "a", long + "b", long, long[:64], long[:63], long[:63] + ".", "x" + long, long[:54] + "." + long[:100], long[:54] + "-" + long[:100]} {
		g := NewWithT(t)
		value := record.LabelValue(name)
		g.Expect(validation.IsValidLabelValue(value)).To(BeEmpty(), value)
		g.Expect(seen).NotTo(HaveKey(value), "%s and %s", name, seen[value])
		seen[value] = name
		g.Expect(record.LabelValue(name)).To(Equal(value), "deterministic")
	}
}

// Names of Secrets, Leases and accounts are shortened names of workspaces, which a user chooses.
func TestShorten_givesNoNameThatAUserCanChoose(t *testing.T) {
	g := NewWithT(t)
	for _, limit := range []int{45, 63} {
		short := record.Shorten(strings.Repeat("long-", 14), limit)
		g.Expect(record.Shorten(short, limit)).NotTo(Equal(short), "a workspace with that name")
		g.Expect(record.Shorten(short, 253)).NotTo(Equal(short), "whatever the limit")
		hash := short[strings.LastIndex(short, "-")+1:]
		g.Expect(len(hash)*4).To(BeNumerically(">=", 80), "bits of the hash, so that nobody finds another name with it")
	}
}

func TestShorten_isValidForEachLimit(t *testing.T) {
	g := NewWithT(t)
	name := strings.Repeat("ab.c-d", 33)
	for limit := 24; limit <= 63; limit++ {
		short := record.Shorten(name, limit)
		g.Expect(len(short)).To(BeNumerically("<=", limit))
		g.Expect(validation.IsDNS1123Subdomain(short)).To(BeEmpty(), short)
	}
	for limit := 24; limit <= 40; limit++ {
		g.Expect([]byte(record.Shorten(strings.Repeat("grüße ", 20), limit))).To(Satisfy(validUTF8), "no incomplete character")
	}
}

// clusterctl must not copy a state that a run changes.
func TestNewRun_blocksMove(t *testing.T) {
	g := NewWithT(t)
	meta := metav1.ObjectMeta{Annotations: map[string]string{"other": "x"}}
	secret, err := record.NewRun(&terraform.Request{RunID: "w-r1"}, meta)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(secret.Annotations).To(And(HaveKey("clusterctl.cluster.x-k8s.io/block-move"), HaveKeyWithValue("other", "x")))
	g.Expect(meta.Annotations).To(HaveLen(1), "the argument is not changed")
}

// The runner must be able to claim every run.
func TestNewRun_leavesSpaceForTheRunner(t *testing.T) {
	g := NewWithT(t)
	content := make([]byte, 3<<20/4)
	_, err := rand.Read(content)
	g.Expect(err).NotTo(HaveOccurred())
	request := &terraform.Request{RunID: "hello-r1"}
	request.Module.Content = hex.EncodeToString(content)
	_, err = record.NewRun(request, metav1.ObjectMeta{})
	g.Expect(err).NotTo(HaveOccurred())
	request.Module.Content = hex.EncodeToString(append(content, content[:1<<18]...))
	_, err = record.NewRun(request, metav1.ObjectMeta{})
	g.Expect(err).To(MatchError(record.ErrRequestTooLarge))
}

func TestRunID_roundTrips(t *testing.T) {
	for _, name := range []string{"a", "hello", "hello-r7", "r-r-r1", "a.b.c", strings.Repeat("x", 200), strings.Repeat("r1-", 60) + "r1"} {
		for _, number := range []int64{1, 9, 10, 1234567890} {
			g := NewWithT(t)
			id := record.NewRunID(name, number)
			workspace, got, err := record.ParseRunID(id)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(number), id)
			g.Expect(workspace).To(Equal(record.Shorten(name, 45)))
			g.Expect(record.RunNumber(id)).To(Equal(number))
			g.Expect(validation.IsValidLabelValue(id)).To(BeEmpty(), id)
			g.Expect(validation.IsDNS1123Subdomain(record.SecretName(id))).To(BeEmpty(), id)
			g.Expect(len(id)).To(BeNumerically("<=", 63), "limit of the status and of a Job's name")
		}
	}
}

func TestParseRunID_rejectsOtherTexts(t *testing.T) {
	for _, id := range []string{"", "hello", "hello-r", "hello-rx", "hello-r1x"} {
		workspace, number, err := record.ParseRunID(id)
		g := NewWithT(t)
		g.Expect(err).To(MatchError(ContainSubstring("has no number")), id)
		g.Expect(workspace).To(BeEmpty())
		g.Expect(number).To(BeZero())
	}
}

func TestCompress_roundTrips(t *testing.T) {
	for _, text := range []string{"", "state", string(noise(1 << 16))} {
		g := NewWithT(t)
		compressed, err := record.Compress([]byte(text))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(compressed[:2]).To(Equal([]byte{0x1f, 0x8b}), "the Kubernetes backend stores gzip")
		decompressed, err := record.Decompress(compressed)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(decompressed) == text).To(BeTrue(), "content differs")
	}
}

func TestDecompress_rejectsOtherData(t *testing.T) {
	compressed, err := record.Compress([]byte("state"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for name, data := range map[string][]byte{
		"empty": nil, "not compressed": []byte("not compressed"), "truncated": compressed[:len(compressed)-1],
	} {
		_, err := record.Decompress(data)
		NewWithT(t).Expect(err).To(HaveOccurred(), name)
	}
}

func compressed(g Gomega, text string) []byte {
	data, err := record.Compress([]byte(text))
	g.Expect(err).NotTo(HaveOccurred())
	return data
}

func TestStateIsEmpty(t *testing.T) {
	g := NewWithT(t)
	tests := []struct {
		name  string
		data  map[string][]byte
		empty bool
		err   string
	}{
		{"no data", nil, true, ""},
		{"reserved and never written", map[string][]byte{"tfstate": {}}, true, ""},
		{"written by init", map[string][]byte{"tfstate": compressed(g, `{"version":4,"serial":1,"resources":[]}`)}, true, ""},
		{"outputs only", map[string][]byte{"tfstate": compressed(g, `{"version":4,"outputs":{"a":{"value":1}}}`)}, true, ""},
		{"resources", map[string][]byte{"tfstate": compressed(g, `{"resources":[{"type":"a"}]}`)}, false, ""},
		{"encrypted", map[string][]byte{"tfstate": compressed(g, `{"meta":{},"encrypted_data":"x"}`)}, false, ""},
		{"not compressed", map[string][]byte{"tfstate": []byte(`{"s3cr3t":1}`)}, false, "not valid gzip"},
		{"not JSON", map[string][]byte{"tfstate": compressed(g, `s3cr3t`)}, false, "not valid JSON"},
		{"truncated", map[string][]byte{"tfstate": compressed(g, `{"resources":[]}`)[:20]}, false, "not valid gzip"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			empty, _, err := record.StateIsEmpty(&corev1.Secret{Data: tt.data})
			g.Expect(empty).To(Equal(tt.empty))
			if tt.err == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(And(ContainSubstring(tt.err), Not(ContainSubstring("s3cr3t")))))
		})
	}
}

func TestTrim_keepsTheDataThatTheManagerReads(t *testing.T) {
	tests := []struct {
		component string
		want      []string
	}{
		{component: record.ComponentRun, want: []string{"identity", "progress", "result"}},
		{component: record.ComponentPlan},
		{component: record.ComponentSnapshot},
		{component: record.ComponentState},
		{component: record.ComponentRescue},
		{component: record.ComponentModule},
		{component: "connection", want: []string{"identity", "log", "progress", "request", "result"}},
	}
	for _, tt := range tests {
		t.Run(tt.component, func(t *testing.T) {
			g := NewWithT(t)
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "s", Labels: map[string]string{"capt.appthrust.io/component": tt.component}},
				Data:       map[string][]byte{"request": {1}, "identity": {1}, "progress": {1}, "log": {1}, "result": {1}},
			}

			record.Trim(secret)

			var kept []string
			for key := range secret.Data {
				kept = append(kept, key)
			}
			g.Expect(kept).To(ConsistOf(tt.want))
			g.Expect(secret.Name).To(Equal("s"))
		})
	}
}

// A run writes its own Secret, and others can create Secrets that look like one.
func TestTrim_keepsLittleOfALargeRun(t *testing.T) {
	g := NewWithT(t)
	large := bytes.Repeat([]byte("x"), 200<<10)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"capt.appthrust.io/component": record.ComponentRun}},
		Data:       map[string][]byte{"identity": large, "progress": large, "state": large, "result": large, "other": large},
	}
	record.Trim(secret)
	size := 0
	for _, value := range secret.Data {
		size += cap(value)
	}
	g.Expect(size).To(BeNumerically("<", 64<<10))
	g.Expect(record.Finished(secret)).To(BeTrue())
	g.Expect(record.Claimed(secret)).To(BeTrue())
	g.Expect(record.HasTrimmedResult(secret)).To(BeTrue())
	progress, err := record.Progress(secret)
	g.Expect(progress, err).To(BeNil())

	secret.Data["result"] = large[:64<<10]
	record.Trim(secret)
	g.Expect(record.HasTrimmedResult(secret)).To(BeFalse())
	g.Expect(secret.Data["result"]).To(HaveLen(64 << 10))
}

func TestInternalComponents_areThoseThatTrimReduces(t *testing.T) {
	NewWithT(t).Expect(record.InternalComponents()).To(ConsistOf("run", "plan", "snapshot", "state", "rescue", "module", "transfer", "token"))
}
