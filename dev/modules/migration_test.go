package main

import (
	"encoding/json"
	"testing"
)

func changes(t *testing.T, text string) []change {
	t.Helper()
	var all []change
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestHarmless_allowsChangesInPlaceAndTheForgottenReleaseOnly(t *testing.T) {
	const release = `{"address":"module.karpenter.helm_release.karpenter[\"main\"]","change":{"actions":["forget"]}}`
	const kept = `{"address":"a.b","change":{"actions":["no-op"]}},{"address":"c.d","change":{"actions":["update"]}}`
	if err := harmless(changes(t, "["+release+","+kept+"]")); err != nil {
		t.Errorf("a harmless plan is not: %v", err)
	}
	tests := map[string]string{
		"a destroyed resource":        "[" + release + `,{"address":"e.f","change":{"actions":["delete"]}}]`,
		"a replaced resource":         "[" + release + `,{"address":"e.f","change":{"actions":["create","delete"]}}]`,
		"a new resource":              "[" + release + `,{"address":"e.f","change":{"actions":["create"]}}]`,
		"a destroyed release":         `[{"address":"module.karpenter.helm_release.karpenter[\"main\"]","change":{"actions":["delete"]}}]`,
		"nothing forgotten":           "[" + kept + "]",
		"something forgotten besides": "[" + release + `,{"address":"e.f","change":{"actions":["forget"]}}]`,
	}
	for name, text := range tests {
		if err := harmless(changes(t, text)); err == nil {
			t.Errorf("%s is harmless", name)
		}
	}
}

func TestStateFile_groupsInstancesByResource(t *testing.T) {
	var root stateModule
	err := json.Unmarshal([]byte(`{"resources":[
	  {"address":"data.aws_region.current","mode":"data","type":"aws_region","name":"current","values":{}}],
	 "child_modules":[{"resources":[
	  {"address":"module.a[0].aws_iam_role.this[\"x.y\"]","mode":"managed","type":"aws_iam_role","name":"this","index":"x.y","provider_name":"registry.opentofu.org/hashicorp/aws","schema_version":0,"values":{"name":"n","path":null}},
	  {"address":"module.a[0].aws_iam_role.this[\"z\"]","mode":"managed","type":"aws_iam_role","name":"this","index":"z","provider_name":"registry.opentofu.org/hashicorp/aws","schema_version":0,"values":{"path":"/own/"}},
	  {"address":"module.a[0].aws_eks_cluster.this","mode":"managed","type":"aws_eks_cluster","name":"this","provider_name":"registry.opentofu.org/hashicorp/aws","schema_version":1,"values":{}}]}]}`), &root)
	if err != nil {
		t.Fatal(err)
	}
	text, err := stateFile(root)
	if err != nil {
		t.Fatal(err)
	}
	var state struct {
		Version   int
		Resources []fileResource
	}
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		t.Fatal(err)
	}
	if state.Version != 4 || len(state.Resources) != 2 {
		t.Fatalf("the state is %s", text)
	}
	role, cluster := state.Resources[0], state.Resources[1]
	if role.Module != "module.a[0]" || role.Provider != `provider["registry.opentofu.org/hashicorp/aws"]` || len(role.Instances) != 2 || role.Instances[0].Index != "x.y" {
		t.Errorf("the role is %+v", role)
	}
	if role.Instances[0].Attributes["path"] != "/" || role.Instances[1].Attributes["path"] != "/own/" {
		t.Errorf("the provider's defaults are %+v", role.Instances)
	}
	if cluster.Instances[0].Index != nil || cluster.Instances[0].SchemaVersion != 1 {
		t.Errorf("the cluster is %+v", cluster)
	}
}
