package main

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

func (e *eks) createAccessEntry(c *call) (values, error) {
	cluster, principal := c.PathValue("cluster"), c.text("principalArn")
	if _, err := e.find(keyOf(c, cluster)); err != nil {
		return nil, err
	}
	body := pick(c.body, "principalArn", "kubernetesGroups", "username", "type", "tags")
	defaultTo(body, "type", "STANDARD")
	defaultTo(body, "username", principal)
	defaultTo(body, "kubernetesGroups", []any{})
	body["clusterName"], body["policies"] = cluster, []any{}
	body["accessEntryArn"] = arn(c.region, "access-entry/"+cluster+"/"+rand.Text())
	err := e.add(keyOf(c, cluster, accessEntries.path, principal), &object{body: body, arn: text(body, "accessEntryArn")}, true)
	return values{"accessEntry": body}, err
}

func (e *eks) accessEntry(c *call) (*object, error) {
	return e.find(keyOf(c, c.PathValue("cluster"), accessEntries.path, c.PathValue("id")))
}

func (e *eks) updateAccessEntry(c *call) (values, error) {
	t, err := e.accessEntry(c)
	if err != nil {
		return nil, err
	}
	merge(t.body, pick(c.body, "kubernetesGroups", "username"))
	t.body["modifiedAt"] = seconds(e.now())
	return values{"accessEntry": t.body}, nil
}

func (e *eks) listAccessPolicies(c *call) (values, error) {
	t, err := e.accessEntry(c)
	if err != nil {
		return nil, err
	}
	return values{"clusterName": t.body["clusterName"], "principalArn": t.body["principalArn"], "associatedAccessPolicies": t.body["policies"]}, nil
}

func (e *eks) associateAccessPolicy(c *call) (values, error) {
	t, err := e.accessEntry(c)
	if err != nil {
		return nil, err
	}
	policy := pick(c.body, "policyArn", "accessScope")
	policy["associatedAt"], policy["modifiedAt"] = seconds(e.now()), seconds(e.now())
	t.body["policies"] = append(e.withoutPolicy(t, c.text("policyArn")), policy)
	return values{"clusterName": t.body["clusterName"], "principalArn": t.body["principalArn"], "associatedAccessPolicy": policy}, nil
}

func (e *eks) disassociateAccessPolicy(c *call) (values, error) {
	t, err := e.accessEntry(c)
	if err != nil {
		return nil, err
	}
	rest := e.withoutPolicy(t, c.PathValue("policy"))
	if len(rest) == len(t.body["policies"].([]any)) {
		return nil, notFound("The policy is not associated.")
	}
	t.body["policies"] = rest
	return values{}, nil
}

func (e *eks) withoutPolicy(t *object, policy string) []any {
	return slices.DeleteFunc(slices.Clone(t.body["policies"].([]any)), func(p any) bool { return text(p.(values), "policyArn") == policy })
}

func (e *eks) createAssociation(c *call) (values, error) {
	return e.addAssociation(c, c.PathValue("cluster"), c.body)
}

// addAssociation gives a service account a role.
func (e *eks) addAssociation(c *call, cluster string, requested values) (values, error) {
	if _, err := e.find(keyOf(c, cluster)); err != nil {
		return nil, err
	}
	if err := e.checkRole(c, text(requested, "roleArn"), podService); err != nil {
		return nil, err
	}
	id := "a-" + strings.ToLower(rand.Text())
	body := pick(requested, "namespace", "serviceAccount", "roleArn", "tags", "disableSessionTags", "targetRoleArn", "ownerArn")
	defaultTo(body, "disableSessionTags", false)
	body["clusterName"], body["associationId"] = cluster, id
	body["associationArn"] = arn(c.region, "podidentityassociation/"+cluster+"/"+id)
	for _, other := range e.childNames(keyOf(c, cluster, associations.path)) {
		t := e.objects[keyOf(c, cluster, associations.path, other)]
		if t.body["namespace"] == body["namespace"] && t.body["serviceAccount"] == body["serviceAccount"] {
			return nil, inUse("Association already exists: %s", other)
		}
	}
	err := e.add(keyOf(c, cluster, associations.path, id), &object{body: body, arn: text(body, "associationArn")}, true)
	return values{"association": body}, err
}

// associate gives the service accounts of an add-on the requested roles, and removes
// others. A request without a list keeps those that there are.
func (e *eks) associate(c *call, cluster string, addon *object) error {
	requested, isList := c.body["podIdentityAssociations"].([]any)
	if !isList {
		return nil
	}
	e.disassociate(c, cluster, addon)
	arns := []any{}
	for _, item := range requested {
		one := pick(item.(values), "serviceAccount", "roleArn")
		one["namespace"], one["ownerArn"] = "kube-system", addon.arn
		created, err := e.addAssociation(c, cluster, one)
		if err != nil {
			return err
		}
		arns = append(arns, child(created, "association")["associationArn"])
	}
	addon.body["podIdentityAssociations"] = arns
	return nil
}

// disassociate deletes the associations that belong to an add-on.
func (e *eks) disassociate(c *call, cluster string, addon *object) {
	for _, id := range e.childNames(keyOf(c, cluster, associations.path)) {
		if at := keyOf(c, cluster, associations.path, id); e.objects[at].body["ownerArn"] == addon.arn {
			delete(e.objects, at)
		}
	}
}

func (e *eks) listAssociations(c *call) (values, error) {
	found := []any{}
	for _, id := range e.childNames(keyOf(c, c.PathValue("cluster"), associations.path)) {
		found = append(found, pick(e.objects[keyOf(c, c.PathValue("cluster"), associations.path, id)].body,
			"clusterName", "namespace", "serviceAccount", "associationArn", "associationId"))
	}
	return values{"associations": found}, nil
}

func (e *eks) updateAssociation(c *call) (values, error) {
	t, err := e.find(keyOf(c, c.PathValue("cluster"), associations.path, c.PathValue("id")))
	if err != nil {
		return nil, err
	}
	merge(t.body, pick(c.body, "roleArn", "disableSessionTags", "targetRoleArn"))
	t.body["modifiedAt"] = seconds(e.now())
	return values{"association": t.body}, nil
}

// tagged returns the tags of the object with an ARN.
func (e *eks) tagged(c *call) (values, error) {
	wanted := c.PathValue("arn")
	for _, t := range e.objects {
		if t.arn == wanted {
			return child(t.body, "tags"), nil
		}
	}
	return nil, &refusal{http.StatusNotFound, "NotFoundException", "No resource " + url.PathEscape(wanted)}
}

func (e *eks) listTags(c *call) (values, error) {
	tags, err := e.tagged(c)
	return values{"tags": tags}, err
}

func (e *eks) tag(c *call) (values, error) {
	tags, err := e.tagged(c)
	if err == nil {
		merge(tags, child(c.body, "tags"))
	}
	return values{}, err
}

func (e *eks) untag(c *call) (values, error) {
	tags, err := e.tagged(c)
	for _, name := range c.URL.Query()["tagKeys"] {
		delete(tags, name)
	}
	return values{}, err
}
