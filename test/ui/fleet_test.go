package ui

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"text/template"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// fleet creates the objects of the screenshots, once.
var fleet = sync.OnceValue(func() error {
	content, err := os.ReadFile(filepath.Join("testdata", "fleet.yaml"))
	if err != nil {
		return err
	}
	now := time.Now()
	ago := func(text string) (string, error) {
		d, err := time.ParseDuration(text)
		return now.Add(-d).UTC().Format(time.RFC3339), err
	}
	source, err := template.New("fleet").Funcs(template.FuncMap{"ago": ago}).Parse(string(content))
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := source.Execute(&out, nil); err != nil {
		return err
	}
	ctx := context.Background()
	for _, namespace := range []string{"team-a", "team-b"} {
		if err := env.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
			return err
		}
	}
	owners, ages := map[string]metav1.OwnerReference{}, map[string]metav1.Time{}
	for document := range strings.SplitSeq(out.String(), "\n---\n") {
		if err := create(ctx, document, owners, ages); err != nil {
			return err
		}
	}
	return createRecords(ctx)
})

// create creates an object with its status. The objects of a Cluster are as old as that.
func create(ctx context.Context, document string, owners map[string]metav1.OwnerReference, ages map[string]metav1.Time) error {
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(document), &obj.Object); err != nil {
		return err
	}
	status, has := obj.Object["status"]
	created, deleted := obj.GetCreationTimestamp(), obj.GetDeletionTimestamp()
	id := obj.GetNamespace() + "/" + cmp.Or(obj.GetLabels()[clusterv1.ClusterNameLabel], obj.GetName())
	if !created.IsZero() {
		ages[id] = created
	}
	if owner := obj.GetAnnotations()["owner"]; owner != "" {
		obj.SetOwnerReferences([]metav1.OwnerReference{owners[obj.GetNamespace()+"/"+owner]})
		obj.SetAnnotations(nil)
	}
	if err := env.Client.Create(ctx, obj); err != nil {
		return fmt.Errorf("%s %s: %w", obj.GetKind(), obj.GetName(), err)
	}
	owners[obj.GetNamespace()+"/"+obj.GetKind()+"/"+obj.GetName()] = metav1.OwnerReference{
		APIVersion: obj.GetAPIVersion(), Kind: obj.GetKind(), Name: obj.GetName(), UID: obj.GetUID(), Controller: new(true),
	}
	if has {
		obj.Object["status"] = status
		if err := env.Client.Status().Update(ctx, obj); err != nil {
			return fmt.Errorf("status of %s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
	}
	if created, found := ages[id]; found {
		return setAge(ctx, obj, created, deleted)
	}
	return nil
}

// setAge sets when an object was created and deleted. Only etcd accepts that.
func setAge(ctx context.Context, obj *unstructured.Unstructured, created metav1.Time, deleted *metav1.Time) error {
	mapping, err := env.Client.RESTMapper().RESTMapping(obj.GroupVersionKind().GroupKind(), obj.GroupVersionKind().Version)
	if err != nil {
		return err
	}
	type pair struct {
		Key   []byte `json:"key"`
		Value []byte `json:"value,omitempty"`
	}
	stored := pair{Key: []byte(path.Join("/registry", mapping.Resource.Group, mapping.Resource.Resource, obj.GetNamespace(), obj.GetName()))}
	var found struct {
		Pairs []pair `json:"kvs"`
	}
	if err := callEtcd(ctx, "range", stored, &found); err != nil || len(found.Pairs) != 1 {
		return fmt.Errorf("reading %s from etcd: %d found, %w", stored.Key, len(found.Pairs), err)
	}
	var content unstructured.Unstructured
	if err := json.Unmarshal(found.Pairs[0].Value, &content.Object); err != nil {
		return err
	}
	content.SetCreationTimestamp(created)
	if deleted != nil {
		content.SetDeletionTimestamp(deleted)
		content.SetFinalizers([]string{"example.com/test"})
	}
	if stored.Value, err = json.Marshal(content.Object); err != nil {
		return err
	}
	return callEtcd(ctx, "put", stored, &struct{}{})
}

// callEtcd calls etcd over its JSON gateway.
func callEtcd(ctx context.Context, method string, body, result any) error {
	content, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, env.EtcdURL()+"/v3/kv/"+method, bytes.NewReader(content))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd answers %s", response.Status)
	}
	return json.NewDecoder(response.Body).Decode(result)
}

// changes are the details of the waiting plan.
const changes = `{"resource":{"address":"module.network.aws_vpc.this","action":"update","attributes":[{"path":["enable_dns_hostnames"],"action":"update","before":false,"after":true},{"path":["tags","Name"],"action":"update","before":"staging","after":"staging-v2"},{"path":["tags","CostCenter"],"action":"create","after":"42"}],"unchanged":18}}
{"resource":{"address":"module.network.aws_nat_gateway.this","action":"replace","reason":"cannot_update","attributes":[{"path":["connectivity_type"],"action":"update","before":"public","after":"private","replaces":true},{"path":["id"],"action":"update","before":"nat-0123456789abcdef0","unknown":true},{"path":["secret_token"],"action":"update","sensitive":true}],"unchanged":4}}
{"resource":{"address":"module.network.aws_route_table.private","action":"update","attributes":[{"path":["route",0,"nat_gateway_id"],"action":"update","before":"nat-0123456789abcdef0","unknown":true}],"unchanged":6}}
{"output":{"name":"nat_gateway_ids","action":"update","attributes":[{"path":[0],"action":"update","before":"nat-0123456789abcdef0","unknown":true}]}}
`

// createRecords creates the records of the waiting plan and of the run in progress.
func createRecords(ctx context.Context) error {
	plan := &infrav1.WorkspacePlan{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "staging-vpc-r3"},
		Spec:       infrav1.WorkspacePlanSpec{Workspace: "staging-vpc", Plan: planID},
	}
	for line := range strings.Lines(changes) {
		plan.Spec.Changes = append(plan.Spec.Changes, infrav1.Value{Raw: json.RawMessage(line)})
	}
	if err := env.Client.Create(ctx, plan); err != nil {
		return err
	}
	apply := &infrav1.WorkspaceTemplateApply{}
	if err := env.Client.Get(ctx, client.ObjectKey{Namespace: "team-b", Name: "new-eks"}, apply); err != nil {
		return err
	}
	request := &terraform.Request{RunID: runID, Workspace: terraform.WorkspaceRef{Namespace: "team-b", Name: "new-eks", UID: string(apply.UID)}}
	secret, err := record.NewRun(request, record.Meta(request.Workspace, record.ComponentRun, runID))
	if err != nil {
		return err
	}
	if err := env.Client.Create(ctx, secret); err != nil {
		return err
	}
	return writeLog(ctx, firstLog)
}

const (
	runID    = "new-eks-r1"
	firstLog = "module.eks.aws_iam_role.cluster: Creating...\nmodule.eks.aws_iam_role.cluster: Creation complete after 2s [id=new-cluster]\nmodule.eks.aws_eks_cluster.this: Creating...\nmodule.eks.aws_eks_cluster.this: Still creating... [1m30s elapsed]\n"
)

// writeLog writes the log of the run in progress as the runner does.
func writeLog(ctx context.Context, text string) error {
	content, err := record.ProgressPatch(terraform.Progress{}, []byte(text))
	if err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team-b", Name: record.SecretName(runID)}}
	return env.Client.Patch(ctx, secret, client.RawPatch(types.MergePatchType, content))
}
