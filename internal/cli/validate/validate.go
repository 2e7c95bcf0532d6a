package validate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/addon/chart"
	"github.com/appthrust/capt/internal/addon/versions"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/webhooks"
)

// Charts reads charts from where add-ons name them. It blocks until the chart
// is there.
type Charts interface {
	Fetch(ctx context.Context, repository, name, version string, insecure bool) (*chart.Chart, error)
}

// Options is what a check goes by.
type Options struct {
	// Namespace is where objects go that name none; default if empty.
	Namespace string
	// Strict makes references to objects that are not given errors.
	Strict bool
	// Given are charts by their name, used whatever repository is named.
	Given map[string]*chart.Chart
	// Charts fetches charts that are not given; nil fetches none.
	Charts Charts
	// Versions is the version matrix; nil checks no versions.
	Versions *versions.Matrix
}

// set is everything that was given, and what was found.
type set struct {
	Options
	scheme  *runtime.Scheme
	objects []*Object
	// typed are the objects that could be read.
	typed    map[*Object]client.Object
	byKey    map[key]*Object
	findings []Finding
}

// key is what a reference names.
type key struct{ group, kind, namespace, name string }

// Check checks objects on their own and together.
func Check(ctx context.Context, objects []*Object, options Options) ([]Finding, error) {
	s, err := check(ctx, objects, options)
	if err != nil {
		return nil, err
	}
	return sorted(s.findings), nil
}

// Decode checks objects as Check does, and returns those that could be read, as
// the API server would store them.
func Decode(ctx context.Context, objects []*Object, options Options) ([]client.Object, []Finding, error) {
	s, err := check(ctx, objects, options)
	if err != nil {
		return nil, nil, err
	}
	var decoded []client.Object
	for _, o := range objects {
		if typed := s.typed[o]; typed != nil {
			typed.GetObjectKind().SetGroupVersionKind(o.GroupVersionKind())
			decoded = append(decoded, typed)
		}
	}
	return decoded, sorted(s.findings), nil
}

func check(ctx context.Context, objects []*Object, options Options) (*set, error) {
	if options.Namespace == "" {
		options.Namespace = "default"
	}
	s := &set{
		Options: options, scheme: scheme.New(), objects: objects,
		typed: map[*Object]client.Object{}, byKey: map[key]*Object{},
	}
	for _, o := range objects {
		if err := s.checkObject(ctx, o); err != nil {
			return nil, err
		}
	}
	s.index()
	s.checkReferences()
	s.checkCycles()
	s.checkTemplates()
	s.checkWorkspaces()
	s.checkTopologies()
	s.checkAddons(ctx)
	return s, s.checkClusters(ctx)
}

func (s *set) add(findings ...Finding) { s.findings = append(s.findings, findings...) }

// checkObject checks an object as the API server would.
func (s *set) checkObject(ctx context.Context, o *Object) error {
	all, err := kinds()
	if err != nil {
		return err
	}
	gvk := o.GroupVersionKind()
	k, ours := all[gvk]
	if !ours {
		s.checkForeign(o)
		return nil
	}
	if err := k.prepare(); err != nil {
		return err
	}
	// What follows fills in and prunes, and what a person wrote stays.
	working := o.DeepCopy()
	if working.GetNamespace() == "" {
		working.SetNamespace(s.Namespace)
	}
	unknown, problem := k.unknownFields(working.Object)
	for _, path := range unknown {
		s.add(o.finding(Error, RuleUnknownField, path, unknownField(path, k.names(schemaPath(path)))))
	}
	if problem != nil {
		s.add(o.finding(Error, RuleSchema, problem.Field, problem.ErrorBody()))
		return nil
	}
	s.fillIn(working.Object, o)
	if errs := k.check(ctx, working); len(errs) > 0 {
		s.refuse(o, RuleSchema, errs)
		return nil
	}
	typed, _, err := o.with(working).decode(s.scheme)
	if err != nil {
		s.add(o.fail(RuleSchema, "", "%v", err))
		return nil
	}
	object := typed.(client.Object)
	s.typed[o] = object
	s.refuse(o, RuleAdmission, webhooks.Check(object))
	return nil
}

func (s *set) refuse(o *Object, rule Rule, errs field.ErrorList) {
	for _, err := range errs {
		s.add(o.finding(Error, rule, err.Field, err.ErrorBody()))
	}
}

// fillIn fills in what the webhooks fill in before the schema is checked. An
// object that they could not read is left to the schema.
func (s *set) fillIn(working map[string]any, o *Object) {
	typed, _, err := o.decode(s.scheme)
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
	filled := map[string]any{}
	if err := json.Unmarshal(text, &filled); err != nil {
		return
	}
	clear(working)
	for name, value := range filled {
		working[name] = normalise(value)
	}
}

// normalise makes whole numbers those of the API server.
func normalise(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, inside := range v {
			v[name] = normalise(inside)
		}
	case []any:
		for i, item := range v {
			v[i] = normalise(item)
		}
	case float64:
		if whole := int64(v); float64(whole) == v {
			return whole
		}
	}
	return value
}

// checkForeign checks an object of Kubernetes' or Cluster API's by its Go type.
// Kinds of others are nobody's business here.
func (s *set) checkForeign(o *Object) {
	gvk := o.GroupVersionKind()
	if !s.scheme.Recognizes(gvk) {
		all, err := kinds()
		if err != nil {
			return
		}
		known, versions := knownKinds(all, s.scheme, gvk.Group)
		switch {
		case len(known) == 0:
		case slices.Contains(known, gvk.Kind):
			s.add(o.fail(RuleUnknownKind, "apiVersion", "%s has no version %s: write apiVersion: %s", gvk.Kind, gvk.Version, strings.Join(versions, " or ")))
		default:
			if nearest, found := message.Nearest(gvk.Kind, known); found {
				s.add(o.fail(RuleUnknownKind, "kind", "%s has no kind %s: did you mean %s?", o.GetAPIVersion(), gvk.Kind, nearest))
			} else if strings.HasSuffix(gvk.Group, ".cluster.x-k8s.io") && isOurs(gvk.Group) {
				s.add(o.fail(RuleUnknownKind, "kind", "%s has no kind %s: known are %s", o.GetAPIVersion(), gvk.Kind, strings.Join(known, ", ")))
			}
		}
		return
	}
	typed, findings, err := o.decode(s.scheme)
	s.add(findings...)
	if err != nil {
		s.add(o.fail(RuleSchema, "", "%v", err))
		return
	}
	if object, ok := typed.(client.Object); ok {
		if object.GetNamespace() == "" {
			object.SetNamespace(s.Namespace)
		}
		s.typed[o] = object
	}
}

// isOurs tells whether all kinds of a group are known: other providers have
// kinds in the groups of Cluster API.
func isOurs(group string) bool { return group == "addons.cluster.x-k8s.io" }

// index lets references find objects.
func (s *set) index() {
	for _, o := range s.objects {
		namespace := o.GetNamespace()
		if namespace == "" {
			namespace = s.Namespace
		}
		gvk := o.GroupVersionKind()
		k := key{group: gvk.Group, kind: gvk.Kind, namespace: namespace, name: o.GetName()}
		if first, found := s.byKey[k]; found && o.GetName() != "" {
			severity := Warning
			if first.File == o.File {
				severity = Error
			}
			line, _ := first.locate("")
			s.add(o.finding(severity, RuleDuplicateObject, "metadata.name",
				fmt.Sprintf("%s is also given in %s, line %d: rename or remove one of them", o.name(), first.File, line)))
			continue
		}
		s.byKey[k] = o
	}
}

// all are the objects of a type, in the order in which they were given.
func all[T client.Object](s *set) (objects []*Object, typed []T) {
	for _, o := range s.objects {
		if t, ok := s.typed[o].(T); ok {
			objects, typed = append(objects, o), append(typed, t)
		}
	}
	return objects, typed
}

// find is the object of a type that a reference names, or nil.
func find[T client.Object](s *set, k key) (found T) {
	if o := s.byKey[k]; o != nil {
		found, _ = s.typed[o].(T)
	}
	return found
}
