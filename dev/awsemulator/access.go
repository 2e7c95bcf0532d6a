package main

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

func (e *eks) createAccessEntry(c *call) (object, error) {
	cluster, principal := c.PathValue("cluster"), c.text("principalArn")
	if _, err := e.find(place(c, cluster)); err != nil {
		return nil, err
	}
	body := only(c.body, "principalArn", "kubernetesGroups", "username", "type", "tags")
	defaultTo(body, "type", "STANDARD")
	defaultTo(body, "username", principal)
	defaultTo(body, "kubernetesGroups", []any{})
	body["clusterName"], body["policies"] = cluster, []any{}
	body["accessEntryArn"] = arn(c.region, "access-entry/"+cluster+"/"+rand.Text())
	err := e.add(place(c, cluster, accessEntries.path, principal), &thing{body: body, arn: text(body, "accessEntryArn")}, true)
	return object{"accessEntry": body}, err
}

func (e *eks) accessEntry(c *call) (*thing, error) {
	return e.find(place(c, c.PathValue("cluster"), accessEntries.path, c.PathValue("id")))
}

func (e *eks) updateAccessEntry(c *call) (object, error) {
	t, err := e.accessEntry(c)
	if err != nil {
		return nil, err
	}
	merge(t.body, only(c.body, "kubernetesGroups", "username"))
	t.body["modifiedAt"] = seconds(e.now())
	return object{"accessEntry": t.body}, nil
}

func (e *eks) listAccessPolicies(c *call) (object, error) {
	t, err := e.accessEntry(c)
	if err != nil {
		return nil, err
	}
	return object{"clusterName": t.body["clusterName"], "principalArn": t.body["principalArn"], "associatedAccessPolicies": t.body["policies"]}, nil
}

func (e *eks) associateAccessPolicy(c *call) (object, error) {
	t, err := e.accessEntry(c)
	if err != nil {
		return nil, err
	}
	policy := only(c.body, "policyArn", "accessScope")
	policy["associatedAt"], policy["modifiedAt"] = seconds(e.now()), seconds(e.now())
	t.body["policies"] = append(e.withoutPolicy(t, c.text("policyArn")), policy)
	return object{"clusterName": t.body["clusterName"], "principalArn": t.body["principalArn"], "associatedAccessPolicy": policy}, nil
}

func (e *eks) disassociateAccessPolicy(c *call) (object, error) {
	t, err := e.accessEntry(c)
	if err != nil {
		return nil, err
	}
	rest := e.withoutPolicy(t, c.PathValue("policy"))
	if len(rest) == len(t.body["policies"].([]any)) {
		return nil, notFound("The policy is not associated.")
	}
	t.body["policies"] = rest
	return object{}, nil
}

func (e *eks) withoutPolicy(t *thing, policy string) []any {
	return slices.DeleteFunc(slices.Clone(t.body["policies"].([]any)), func(p any) bool { return text(p.(object), "policyArn") == policy })
}

func (e *eks) createAssociation(c *call) (object, error) {
	cluster := c.PathValue("cluster")
	if _, err := e.find(place(c, cluster)); err != nil {
		return nil, err
	}
	id := "a-" + strings.ToLower(rand.Text())
	body := only(c.body, "namespace", "serviceAccount", "roleArn", "tags", "disableSessionTags", "targetRoleArn")
	defaultTo(body, "disableSessionTags", false)
	body["clusterName"], body["associationId"] = cluster, id
	body["associationArn"] = arn(c.region, "podidentityassociation/"+cluster+"/"+id)
	for _, other := range e.below(place(c, cluster, associations.path)) {
		t := e.things[place(c, cluster, associations.path, other)]
		if t.body["namespace"] == body["namespace"] && t.body["serviceAccount"] == body["serviceAccount"] {
			return nil, inUse("Association already exists: %s", other)
		}
	}
	err := e.add(place(c, cluster, associations.path, id), &thing{body: body, arn: text(body, "associationArn")}, true)
	return object{"association": body}, err
}

func (e *eks) listAssociations(c *call) (object, error) {
	found := []any{}
	for _, id := range e.below(place(c, c.PathValue("cluster"), associations.path)) {
		found = append(found, only(e.things[place(c, c.PathValue("cluster"), associations.path, id)].body,
			"clusterName", "namespace", "serviceAccount", "associationArn", "associationId"))
	}
	return object{"associations": found}, nil
}

func (e *eks) updateAssociation(c *call) (object, error) {
	t, err := e.find(place(c, c.PathValue("cluster"), associations.path, c.PathValue("id")))
	if err != nil {
		return nil, err
	}
	merge(t.body, only(c.body, "roleArn", "disableSessionTags", "targetRoleArn"))
	t.body["modifiedAt"] = seconds(e.now())
	return object{"association": t.body}, nil
}

// tagged returns the tags of the thing with an ARN.
func (e *eks) tagged(c *call) (object, error) {
	wanted := c.PathValue("arn")
	for _, t := range e.things {
		if t.arn == wanted {
			return child(t.body, "tags"), nil
		}
	}
	return nil, &refusal{http.StatusNotFound, "NotFoundException", "No resource " + url.PathEscape(wanted)}
}

func (e *eks) listTags(c *call) (object, error) {
	tags, err := e.tagged(c)
	return object{"tags": tags}, err
}

func (e *eks) tag(c *call) (object, error) {
	tags, err := e.tagged(c)
	if err == nil {
		merge(tags, child(c.body, "tags"))
	}
	return object{}, err
}

func (e *eks) untag(c *call) (object, error) {
	tags, err := e.tagged(c)
	for _, name := range c.URL.Query()["tagKeys"] {
		delete(tags, name)
	}
	return object{}, err
}
