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

// account is the one that moto has.
const account = "123456789012"

// eks is a stand-in of Amazon EKS: it keeps what it is told, gives it back in the
// shape of the real API and keeps to the rules that modules run into. Nothing runs
// behind it.
type eks struct {
	moto         string
	settle       time.Duration
	now          func() time.Time
	endpoint, ca string

	mutex sync.Mutex
	// things are by region and path, such as eu-central-1/clusters/demo/addons/coredns.
	things map[string]*thing
}

func newEKS(moto string, settle time.Duration) *eks {
	return &eks{moto: moto, settle: settle, now: time.Now, things: map[string]*thing{}}
}

// thing is a cluster or a part of one.
type thing struct {
	body object
	arn  string
	// settled is when a status that ends in ING becomes another.
	settled time.Time
}

func (e *eks) routes() http.Handler {
	mux := http.NewServeMux()
	for pattern, answer := range map[string]func(*call) (object, error){
		"POST /clusters":                               e.createCluster,
		"GET /clusters":                                e.listClusters,
		"GET /clusters/{cluster}":                      e.describeCluster,
		"DELETE /clusters/{cluster}":                   e.deleteCluster,
		"POST /clusters/{cluster}/update-config":       e.updateClusterConfig,
		"POST /clusters/{cluster}/updates":             e.updateClusterVersion,
		"GET /clusters/{cluster}/updates/{id}":         e.describeUpdate,
		"GET /cluster-versions":                        e.describeClusterVersions,
		"GET /addons/supported-versions":               e.describeAddonVersions,
		"POST /clusters/{cluster}/addons":              e.createAddon,
		"POST /clusters/{cluster}/addons/{id}/update":  e.updateAddon,
		"POST /clusters/{cluster}/node-groups":         e.createNodeGroup,
		"POST /clusters/{cluster}/fargate-profiles":    e.createFargateProfile,
		"POST /clusters/{cluster}/access-entries":      e.createAccessEntry,
		"POST /clusters/{cluster}/access-entries/{id}": e.updateAccessEntry,

		"POST /clusters/{cluster}/node-groups/{id}/update-config":  e.updateNodeGroupConfig,
		"POST /clusters/{cluster}/node-groups/{id}/update-version": e.updateNodeGroupVersion,

		"GET /clusters/{cluster}/access-entries/{id}/access-policies":             e.listAccessPolicies,
		"POST /clusters/{cluster}/access-entries/{id}/access-policies":            e.associateAccessPolicy,
		"DELETE /clusters/{cluster}/access-entries/{id}/access-policies/{policy}": e.disassociateAccessPolicy,

		"POST /clusters/{cluster}/pod-identity-associations":      e.createAssociation,
		"GET /clusters/{cluster}/pod-identity-associations":       e.listAssociations,
		"POST /clusters/{cluster}/pod-identity-associations/{id}": e.updateAssociation,

		"GET /tags/{arn...}":    e.listTags,
		"POST /tags/{arn...}":   e.tag,
		"DELETE /tags/{arn...}": e.untag,
	} {
		mux.HandleFunc(pattern, e.handle(answer))
	}
	for _, k := range kinds {
		path := "/clusters/{cluster}/" + k.path
		if k.path != associations.path {
			mux.HandleFunc("GET "+path, e.handle(func(c *call) (object, error) { return e.list(c, k) }))
		}
		mux.HandleFunc("GET "+path+"/{id}", e.handle(func(c *call) (object, error) { return e.describe(c, k) }))
		mux.HandleFunc("DELETE "+path+"/{id}", e.handle(func(c *call) (object, error) { return e.delete(c, k) }))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, &refusal{http.StatusNotImplemented, "InvalidRequestException", "The stand-in of EKS does not know " + r.Method + " " + r.URL.Path})
	})
	return mux
}

// kind is one of the collections that a cluster has.
type kind struct {
	// path is its segment of an address, key what a thing of it is called in an
	// answer, list what several are.
	path, key, list string
	// immediate ones have no status.
	immediate bool
}

var (
	addons        = kind{path: "addons", key: "addon", list: "addons"}
	nodeGroups    = kind{path: "node-groups", key: "nodegroup", list: "nodegroups"}
	fargate       = kind{path: "fargate-profiles", key: "fargateProfile", list: "fargateProfileNames"}
	accessEntries = kind{path: "access-entries", key: "accessEntry", list: "accessEntries", immediate: true}
	associations  = kind{path: "pod-identity-associations", key: "association", list: "associations", immediate: true}
	kinds         = []kind{addons, nodeGroups, fargate, accessEntries, associations}
)

// place is where a cluster is kept, or a part of it. The last segment may hold
// slashes.
func place(c *call, segments ...string) string {
	return strings.Join(append([]string{c.region, "clusters"}, segments...), "/")
}

func arn(region, resource string) string {
	return "arn:aws:eks:" + region + ":" + account + ":" + resource
}

// find returns a thing in the state that it has by now.
func (e *eks) find(place string) (*thing, error) {
	t, found := e.things[place]
	if found && !e.now().Before(t.settled) {
		switch text(t.body, "status") {
		case "DELETING":
			delete(e.things, place)
			found = false
		case "CREATING", "UPDATING":
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

// active returns a thing that nothing happens to at the moment.
func (e *eks) active(place string) (*thing, error) {
	t, err := e.find(place)
	if err != nil {
		return nil, err
	}
	if status, has := t.body["status"]; has && status != "ACTIVE" {
		return nil, inUse("%s is %v.", place, status)
	}
	return t, nil
}

func (e *eks) add(place string, t *thing, immediate bool) error {
	if _, err := e.find(place); err == nil {
		return inUse("%s exists already.", place)
	}
	now := e.now()
	t.body["createdAt"], t.body["modifiedAt"] = seconds(now), seconds(now)
	if t.body["tags"] == nil {
		t.body["tags"] = object{}
	}
	delete(t.body, "clientRequestToken")
	if !immediate {
		t.body["status"], t.settled = "CREATING", now.Add(e.settle)
	}
	e.things[place] = t
	return nil
}

// begin starts an update that the caller has already applied to the object: the
// status says that it is in progress.
func (e *eks) begin(c *call, t *thing, what string) object {
	now := e.now()
	t.body["status"], t.body["modifiedAt"], t.settled = "UPDATING", seconds(now), now.Add(e.settle)
	id := rand.Text()
	body := object{"id": id, "type": what, "status": "InProgress", "createdAt": seconds(now), "params": []any{}, "errors": []any{}}
	e.things[place(c, c.PathValue("cluster"), "updates", id)] = &thing{body: body, settled: t.settled}
	return object{"update": body}
}

func (e *eks) describeUpdate(c *call) (object, error) {
	t, err := e.find(place(c, c.PathValue("cluster"), "updates", c.PathValue("id")))
	if err != nil {
		return nil, err
	}
	return object{"update": t.body}, nil
}

func (e *eks) describe(c *call, k kind) (object, error) {
	t, err := e.find(place(c, c.PathValue("cluster"), k.path, c.PathValue("id")))
	if err != nil {
		return nil, err
	}
	return object{k.key: t.body}, nil
}

func (e *eks) list(c *call, k kind) (object, error) {
	return object{k.list: e.below(place(c, c.PathValue("cluster"), k.path))}, nil
}

// below returns the last segments of the places right below another.
func (e *eks) below(place string) []string {
	names := []string{}
	for _, at := range slices.Sorted(maps.Keys(e.things)) {
		if name, is := strings.CutPrefix(at, place+"/"); is {
			if _, err := e.find(at); err == nil {
				names = append(names, name)
			}
		}
	}
	return names
}

func (e *eks) delete(c *call, k kind) (object, error) {
	at := place(c, c.PathValue("cluster"), k.path, c.PathValue("id"))
	t, err := e.find(at)
	if err != nil {
		return nil, err
	}
	if k.immediate {
		delete(e.things, at)
	} else {
		t.body["status"], t.settled = "DELETING", e.now().Add(e.settle)
	}
	return object{k.key: t.body}, nil
}

// left names everything that exists, but for the records of updates.
func (e *eks) left() []string {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	names := []string{}
	for _, at := range slices.Sorted(maps.Keys(e.things)) {
		if _, err := e.find(at); err == nil && !strings.Contains(at, "/updates/") {
			names = append(names, at)
		}
	}
	return names
}

// seconds is how the API writes a time.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// merge puts the values of one object into another, objects in it one by one.
func merge(into, from object) {
	for name, value := range from {
		inner, isObject := value.(object)
		if old, both := into[name].(object); isObject && both {
			merge(old, inner)
			continue
		}
		into[name] = value
	}
}

// only returns the named values of an object that are there.
func only(from object, names ...string) object {
	out := object{}
	for _, name := range names {
		if value, has := from[name]; has && value != nil {
			out[name] = value
		}
	}
	return out
}

func defaultTo(of object, name string, value any) {
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
