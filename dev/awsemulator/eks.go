package main

import (
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// account is the account of moto.
const account = "123456789012"

// eks is a fake of Amazon EKS: it stores objects, returns them in the format of the
// real API, and implements the rules that matter to modules. It starts no API servers.
type eks struct {
	moto string
	// addonTimeout is how long an add-on waits for its pods.
	addonTimeout time.Duration
	now          func() time.Time
	endpoint, ca string

	mutex sync.Mutex
	// objects maps region and path to objects, such as eu-central-1/clusters/demo/addons/coredns.
	objects map[string]*object
}

// settle is how long something stays CREATING, UPDATING or DELETING.
const settle = time.Second

func newEKS(moto string) *eks {
	return &eks{moto: moto, addonTimeout: time.Minute, now: time.Now, objects: map[string]*object{}}
}

// object is a cluster or a part of one.
type object struct {
	body values
	arn  string
	// settled is when a transitional status, such as CREATING, ends.
	settled time.Time
	// onFargate reports whether the pods of an add-on run on Fargate.
	onFargate bool
}

// route is what happens at a path of the API.
type route struct {
	// action is the name of IAM's action, without its service.
	action string
	answer func(*call) (values, error)
}

func (e *eks) routes() map[string]route {
	const cluster = "/clusters/{cluster}"
	all := map[string]route{
		"POST /clusters":                           {"CreateCluster", e.createCluster},
		"GET /clusters":                            {"ListClusters", e.listClusters},
		"GET " + cluster:                           {"DescribeCluster", e.describeCluster},
		"DELETE " + cluster:                        {"DeleteCluster", e.deleteCluster},
		"POST " + cluster + "/update-config":       {"UpdateClusterConfig", e.updateClusterConfig},
		"POST " + cluster + "/updates":             {"UpdateClusterVersion", e.updateClusterVersion},
		"GET " + cluster + "/updates/{id}":         {"DescribeUpdate", e.describeUpdate},
		"GET /cluster-versions":                    {"DescribeClusterVersions", e.describeClusterVersions},
		"GET /addons/supported-versions":           {"DescribeAddonVersions", e.describeAddonVersions},
		"POST " + cluster + "/addons":              {"CreateAddon", e.createAddon},
		"POST " + cluster + "/addons/{id}/update":  {"UpdateAddon", e.updateAddon},
		"POST " + cluster + "/node-groups":         {"CreateNodegroup", e.createNodeGroup},
		"POST " + cluster + "/fargate-profiles":    {"CreateFargateProfile", e.createFargateProfile},
		"POST " + cluster + "/access-entries":      {"CreateAccessEntry", e.createAccessEntry},
		"POST " + cluster + "/access-entries/{id}": {"UpdateAccessEntry", e.updateAccessEntry},

		"POST " + cluster + "/node-groups/{id}/update-config":  {"UpdateNodegroupConfig", e.updateNodeGroupConfig},
		"POST " + cluster + "/node-groups/{id}/update-version": {"UpdateNodegroupVersion", e.updateNodeGroupVersion},

		"GET " + cluster + "/access-entries/{id}/access-policies":             {"ListAssociatedAccessPolicies", e.listAccessPolicies},
		"POST " + cluster + "/access-entries/{id}/access-policies":            {"AssociateAccessPolicy", e.associateAccessPolicy},
		"DELETE " + cluster + "/access-entries/{id}/access-policies/{policy}": {"DisassociateAccessPolicy", e.disassociateAccessPolicy},

		"POST " + cluster + "/pod-identity-associations":      {"CreatePodIdentityAssociation", e.createAssociation},
		"POST " + cluster + "/pod-identity-associations/{id}": {"UpdatePodIdentityAssociation", e.updateAssociation},

		"GET /tags/{arn...}":    {"ListTagsForResource", e.listTags},
		"POST /tags/{arn...}":   {"TagResource", e.tag},
		"DELETE /tags/{arn...}": {"UntagResource", e.untag},
	}
	for _, k := range kinds {
		path := cluster + "/" + k.path
		all["GET "+path] = route{k.listAction, func(c *call) (values, error) { return e.list(c, k) }}
		all["GET "+path+"/{id}"] = route{"Describe" + k.action, func(c *call) (values, error) { return e.describe(c, k) }}
		all["DELETE "+path+"/{id}"] = route{"Delete" + k.action, func(c *call) (values, error) { return e.delete(c, k) }}
	}
	all["GET "+cluster+"/"+associations.path] = route{associations.listAction, e.listAssociations}
	return all
}

// handler returns a handler of the API, and a function that returns IAM's action for a
// request, or "" for an unknown one.
func (e *eks) handler() (http.Handler, func(*http.Request) string) {
	mux, routes := http.NewServeMux(), e.routes()
	for pattern, r := range routes {
		mux.HandleFunc(pattern, e.handle(r.answer))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, &refusal{http.StatusNotImplemented, "InvalidRequestException", "The stand-in of EKS does not know " + r.Method + " " + r.URL.Path})
	})
	return mux, func(r *http.Request) string {
		_, pattern := mux.Handler(r)
		return routes[pattern].action
	}
}

// kind is a kind of objects that belong to a cluster.
type kind struct {
	// path is its segment of a URL. key is the name of one object in a response, and
	// list that of several.
	path, key, list string
	// action is the name of a kind in IAM's actions, and listAction that of the list.
	action, listAction string
	// immediate reports whether objects have no status.
	immediate bool
}

var (
	addons        = kind{path: "addons", key: "addon", list: "addons", action: "Addon", listAction: "ListAddons"}
	nodeGroups    = kind{path: "node-groups", key: "nodegroup", list: "nodegroups", action: "Nodegroup", listAction: "ListNodegroups"}
	fargate       = kind{path: "fargate-profiles", key: "fargateProfile", list: "fargateProfileNames", action: "FargateProfile", listAction: "ListFargateProfiles"}
	accessEntries = kind{path: "access-entries", key: "accessEntry", list: "accessEntries", action: "AccessEntry", listAction: "ListAccessEntries", immediate: true}
	associations  = kind{path: "pod-identity-associations", key: "association", list: "associations", action: "PodIdentityAssociation", listAction: "ListPodIdentityAssociations", immediate: true}
	kinds         = []kind{addons, nodeGroups, fargate, accessEntries, associations}
)

// keyOf returns the key of a cluster, or of an object that belongs to it. The last
// segment may contain slashes.
func keyOf(c *call, segments ...string) string {
	return strings.Join(append([]string{c.region, "clusters"}, segments...), "/")
}

func arn(region, resource string) string {
	return "arn:aws:eks:" + region + ":" + account + ":" + resource
}

// find returns an object in its current state.
func (e *eks) find(place string) (*object, error) {
	t, found := e.objects[place]
	if found && !e.now().Before(t.settled) {
		switch text(t.body, "status") {
		case "DELETING":
			delete(e.objects, place)
			found = false
		case "CREATING", "DEGRADED":
			t.body["status"] = e.created(place, t)
		case "UPDATING":
			t.body["status"] = "ACTIVE"
		case "InProgress":
			t.body["status"] = "Successful"
		}
	}
	if !found {
		return nil, notFound("No %s found.", place)
	}
	return t, nil
}

// active returns an object that is not being created, updated or deleted.
func (e *eks) active(place string) (*object, error) {
	t, err := e.find(place)
	if err != nil {
		return nil, err
	}
	if status, has := t.body["status"]; has && status != "ACTIVE" {
		return nil, inUse("%s is %v.", place, status)
	}
	return t, nil
}

func (e *eks) add(place string, t *object, immediate bool) error {
	if _, err := e.find(place); err == nil {
		return inUse("%s exists already.", place)
	}
	now := e.now()
	t.body["createdAt"], t.body["modifiedAt"] = seconds(now), seconds(now)
	if t.body["tags"] == nil {
		t.body["tags"] = values{}
	}
	delete(t.body, "clientRequestToken")
	if !immediate {
		t.body["status"], t.settled = "CREATING", now.Add(settle)
	}
	e.objects[place] = t
	return nil
}

// begin starts an update that the caller has already applied to the object: the
// status says that it is in progress.
func (e *eks) begin(c *call, t *object, what string) values {
	now := e.now()
	t.body["status"], t.body["modifiedAt"], t.settled = "UPDATING", seconds(now), now.Add(settle)
	id := rand.Text()
	body := values{"id": id, "type": what, "status": "InProgress", "createdAt": seconds(now), "params": []any{}, "errors": []any{}}
	e.objects[keyOf(c, c.PathValue("cluster"), "updates", id)] = &object{body: body, settled: t.settled}
	return values{"update": body}
}

func (e *eks) describeUpdate(c *call) (values, error) {
	t, err := e.find(keyOf(c, c.PathValue("cluster"), "updates", c.PathValue("id")))
	if err != nil {
		return nil, err
	}
	return values{"update": t.body}, nil
}

func (e *eks) describe(c *call, k kind) (values, error) {
	t, err := e.find(keyOf(c, c.PathValue("cluster"), k.path, c.PathValue("id")))
	if err != nil {
		return nil, err
	}
	return values{k.key: t.body}, nil
}

func (e *eks) list(c *call, k kind) (values, error) {
	return values{k.list: e.childNames(keyOf(c, c.PathValue("cluster"), k.path))}, nil
}

// childNames returns the last segments of the keys directly below another.
func (e *eks) childNames(parent string) []string {
	names := []string{}
	for _, at := range slices.Sorted(maps.Keys(e.objects)) {
		if name, is := strings.CutPrefix(at, parent+"/"); is {
			if _, err := e.find(at); err == nil {
				names = append(names, name)
			}
		}
	}
	return names
}

func (e *eks) delete(c *call, k kind) (values, error) {
	at := keyOf(c, c.PathValue("cluster"), k.path, c.PathValue("id"))
	t, err := e.find(at)
	if err != nil {
		return nil, err
	}
	if k == fargate {
		if err := e.checkProfiles(c); err != nil {
			return nil, err
		}
	}
	if k.immediate {
		delete(e.objects, at)
	} else {
		t.body["status"], t.settled = "DELETING", e.now().Add(settle)
	}
	switch k {
	case nodeGroups:
		err = e.resized(c, t.body, 0)
	case addons:
		e.disassociate(c, c.PathValue("cluster"), t)
	}
	return values{k.key: t.body}, err
}

// remaining returns the keys of all objects, except the records of updates.
func (e *eks) remaining() []string {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	names := []string{}
	for _, at := range slices.Sorted(maps.Keys(e.objects)) {
		if _, err := e.find(at); err == nil && !strings.Contains(at, "/updates/") {
			names = append(names, at)
		}
	}
	return names
}

// seconds returns a time in the format of the API.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// merge copies the values of one object to another, and merges nested objects.
func merge(into, from values) {
	for name, value := range from {
		inner, isObject := value.(values)
		if old, both := into[name].(values); isObject && both {
			merge(old, inner)
			continue
		}
		into[name] = value
	}
}

// pick returns the named values of an object, if it has them.
func pick(from values, names ...string) values {
	out := values{}
	for _, name := range names {
		if value, has := from[name]; has && value != nil {
			out[name] = value
		}
	}
	return out
}

func defaultTo(of values, name string, value any) {
	if of[name] == nil {
		of[name] = value
	}
}

func strs(value any) []string {
	list, _ := value.([]any)
	var out []string
	for _, item := range list {
		out = append(out, fmt.Sprint(item))
	}
	return out
}
