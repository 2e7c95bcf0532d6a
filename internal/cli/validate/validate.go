package validate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/addon/chart"
	"github.com/appthrust/capt/internal/addon/versions"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/webhooks"
)

// Options configures a check.
type Options struct {
	// Namespace is the namespace of objects without one. The default is "default".
	Namespace string
	// Strict reports references to objects that are not among the manifests as
	// errors.
	Strict bool
	// Given are charts by their name. They are used whatever the repository.
	Given map[string]*chart.Chart
	// Charts fetches the charts that are not given. If it is nil, they are not
	// checked.
	Charts *chart.Cache
	// Versions is the version matrix. If it is nil, versions are not checked.
	Versions *versions.Matrix
	// Modules are directories of remote modules, by the address in the template.
	Modules map[string]LocalModule
	// Fetch returns a remote module that is not among Modules. If it is nil, they are not
	// checked.
	Fetch func(context.Context, *infrav1.ModuleParameters) (LocalModule, error)
	// Now is the time for which the support of versions is checked. If it is zero,
	// it is not checked.
	Now time.Time
}

// checker contains the objects and the findings of a check.
type checker struct {
	Options
	scheme  *runtime.Scheme
	objects []*Object
	// typed are the objects that could be decoded.
	typed    map[*Object]client.Object
	byKey    map[key]*Object
	findings []Finding
}

// key identifies the object of a reference.
type key struct{ group, kind, namespace, name string }

// Check returns the findings about objects and about the references between them.
func Check(ctx context.Context, objects []*Object, options Options) ([]Finding, error) {
	c, err := check(ctx, objects, options)
	if err != nil {
		return nil, err
	}
	return sorted(c.findings), nil
}

// Decode checks objects like Check, and also returns those that could be decoded, as the
// API server would store them.
func Decode(ctx context.Context, objects []*Object, options Options) ([]client.Object, []Finding, error) {
	c, err := check(ctx, objects, options)
	if err != nil {
		return nil, nil, err
	}
	decoded, _ := c.decoded()
	return decoded, sorted(c.findings), nil
}

// decoded returns the objects that could be decoded, and where they are from.
func (c *checker) decoded() (decoded []client.Object, origin map[client.Object]*Object) {
	origin = map[client.Object]*Object{}
	for _, o := range c.objects {
		if typed := c.typed[o]; typed != nil {
			typed.GetObjectKind().SetGroupVersionKind(o.GroupVersionKind())
			decoded = append(decoded, typed)
			origin[typed] = o
		}
	}
	return decoded, origin
}

func check(ctx context.Context, objects []*Object, options Options) (*checker, error) {
	if options.Namespace == "" {
		options.Namespace = "default"
	}
	c := &checker{
		Options: options, scheme: scheme.New(), objects: objects,
		typed: map[*Object]client.Object{}, byKey: map[key]*Object{},
	}
	for _, o := range objects {
		if err := c.checkObject(ctx, o); err != nil {
			return nil, err
		}
	}
	c.index()
	c.checkReferences()
	c.checkCycles()
	c.replaceModules(ctx)
	c.checkTemplates()
	c.checkWorkspaces()
	c.checkSupport()
	c.checkAddons(ctx)
	return c, c.checkClusters(ctx)
}

func (c *checker) add(findings ...Finding) { c.findings = append(c.findings, findings...) }

// checkObject checks an object like the API server.
func (c *checker) checkObject(ctx context.Context, o *Object) error {
	all, err := kinds()
	if err != nil {
		return err
	}
	gvk := o.GroupVersionKind()
	c.checkNames(o)
	k, isCAPT := all[gvk]
	if !isCAPT {
		c.checkForeign(o)
		return nil
	}
	if err := k.prepare(); err != nil {
		return err
	}
	// Defaulting and pruning change the copy only.
	working := o.DeepCopy()
	if working.GetNamespace() == "" && k.isNamespaced() {
		working.SetNamespace(c.Namespace)
	}
	unknown, problem := k.unknownFields(working.Object)
	for _, path := range unknown {
		c.add(o.finding(Error, RuleUnknownField, path, unknownField(path, k.names(schemaPath(path)))))
	}
	if problem != nil {
		if _, _, err := o.decode(c.scheme); err != nil {
			c.add(o.decodingFinding(err))
		} else {
			c.addErrors(o, RuleSchema, field.ErrorList{problem})
		}
		return nil
	}
	c.applyDefaults(working.Object, o)
	if errs := k.check(ctx, working); len(errs) > 0 {
		c.addErrors(o, RuleSchema, errs)
		return nil
	}
	typed, _, err := o.with(working).decode(c.scheme)
	if err != nil {
		c.add(o.decodingFinding(err))
		return nil
	}
	object := typed.(client.Object)
	c.typed[o] = object
	c.addErrors(o, RuleAdmission, webhooks.Check(object))
	return nil
}

// checkNames checks what the API server requires of a namespace and of the name of a Cluster.
func (c *checker) checkNames(o *Object) {
	if namespace := cmp.Or(o.GetNamespace(), c.Namespace); len(validation.IsDNS1123Label(namespace)) > 0 {
		c.add(o.fail(RuleSchema, "metadata.namespace", "%q is not a valid namespace: use at most 63 lower-case letters, digits and dashes", namespace))
	}
	isCluster := o.GetKind() == clusterv1.ClusterKind && o.GroupVersionKind().Group == clusterv1.GroupVersion.Group
	if name := o.GetName(); isCluster && len(name) > validation.DNS1123LabelMaxLength {
		c.add(o.fail(RuleSchema, "metadata.name", "the name of a Cluster has at most %d characters, not %d", validation.DNS1123LabelMaxLength, len(name)))
	}
}

func (c *checker) addErrors(o *Object, rule Rule, errs field.ErrorList) {
	for _, err := range errs {
		c.add(o.finding(Error, rule, err.Field, withQuotes(err.ErrorBody())))
	}
}

// applyDefaults sets the defaults of the webhooks, which run before the schema is
// checked. It does not change an object that cannot be decoded, which the schema check
// reports.
func (c *checker) applyDefaults(working map[string]any, o *Object) {
	typed, _, err := o.decode(c.scheme)
	if err != nil {
		return
	}
	before, errBefore := json.Marshal(typed)
	webhooks.SetDefaults(typed.(client.Object))
	after, errAfter := json.Marshal(typed)
	if errBefore != nil || errAfter != nil || string(before) == string(after) {
		return
	}
	patch, err := jsonpatch.CreateMergePatch(before, after)
	if err != nil {
		return
	}
	text, err := json.Marshal(working)
	if err != nil {
		return
	}
	if text, err = jsonpatch.MergePatch(text, patch); err != nil {
		return
	}
	// Unlike encoding/json, it decodes whole numbers as integers.
	defaulted := map[string]any{}
	if err := utiljson.Unmarshal(text, &defaulted); err != nil {
		return
	}
	clear(working)
	maps.Copy(working, defaulted)
}

// checkForeign checks an object of Kubernetes or Cluster API by its Go type. It does not
// check objects of other kinds.
func (c *checker) checkForeign(o *Object) {
	gvk := o.GroupVersionKind()
	if !c.scheme.Recognizes(gvk) {
		all, err := kinds()
		if err != nil {
			return
		}
		known, versions := knownKinds(all, c.scheme, gvk.Group)
		switch {
		case len(known) == 0:
		case slices.Contains(known, gvk.Kind):
			c.add(o.fail(RuleUnknownKind, "apiVersion", "%s has no version %s: write apiVersion: %s", gvk.Kind, gvk.Version, strings.Join(versions, " or ")))
		default:
			if nearest, found := message.Nearest(gvk.Kind, known); found {
				c.add(o.fail(RuleUnknownKind, "kind", "%s has no kind %s: did you mean %s?", o.GetAPIVersion(), gvk.Kind, nearest))
			} else if strings.HasSuffix(gvk.Group, ".cluster.x-k8s.io") && isComplete(gvk.Group) {
				c.add(o.fail(RuleUnknownKind, "kind", "%s has no kind %s: the known kinds are %s", o.GetAPIVersion(), gvk.Kind, strings.Join(known, ", ")))
			}
		}
		return
	}
	typed, findings, err := o.decode(c.scheme)
	c.add(findings...)
	if err != nil {
		c.add(o.decodingFinding(err))
		return
	}
	if object, ok := typed.(client.Object); ok {
		if object.GetNamespace() == "" {
			object.SetNamespace(c.Namespace)
		}
		c.typed[o] = object
	}
}

// isComplete reports whether all kinds of a group are known. Other providers have kinds
// in the other groups of Cluster API.
func isComplete(group string) bool { return group == "addons.cluster.x-k8s.io" }

// index records the objects by key and reports duplicates.
func (c *checker) index() {
	for _, o := range c.objects {
		namespace := cmp.Or(o.GetNamespace(), c.Namespace)
		gvk := o.GroupVersionKind()
		k := key{group: gvk.Group, kind: gvk.Kind, namespace: namespace, name: o.GetName()}
		if first, found := c.byKey[k]; found && o.GetName() != "" {
			severity := Warning
			if first.File == o.File {
				severity = Error
			}
			line, _ := first.locate("")
			c.add(o.finding(severity, RuleDuplicateObject, "metadata.name",
				fmt.Sprintf("%s is already defined in %s, line %d: rename or remove one of them", o.name(), first.File, line)))
			continue
		}
		c.byKey[k] = o
	}
}

// all returns the objects of a type in their order.
func all[T client.Object](c *checker) (objects []*Object, typed []T) {
	for _, o := range c.objects {
		if t, ok := c.typed[o].(T); ok {
			objects, typed = append(objects, o), append(typed, t)
		}
	}
	return objects, typed
}

// find returns the object of a key, or nil if it does not exist or has another type.
func find[T client.Object](c *checker, k key) (found T) {
	if o := c.byKey[k]; o != nil {
		found, _ = c.typed[o].(T)
	}
	return found
}
