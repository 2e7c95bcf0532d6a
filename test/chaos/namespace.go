package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// deleteNamespace requests the deletion of the namespace while the workspace has resources, and
// checks that it is refused. Other workspaces are in the namespace, so it is a dry run.
func (a *actor) deleteNamespace(ctx context.Context) error {
	err := poll(ctx, backendTimeout, func(ctx context.Context) error {
		observed := &infrav1.WorkspaceTemplateApply{}
		if err := a.client.Get(ctx, a.key(), observed); err != nil {
			return err
		}
		if state := observed.Status.State; state == nil || state.Resources == 0 {
			return errors.New("the workspace has no resources")
		}
		return ready(observed)
	})
	if err != nil {
		return errNoTarget
	}
	accepted := 0
	err = poll(ctx, backendTimeout, func(ctx context.Context) error {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.namespace}}
		err := a.client.Delete(ctx, namespace, client.DryRunAll)
		switch {
		case apierrors.IsForbidden(err):
			return nil
		case err == nil:
			accepted++
			return errAccepted
		default:
			return err
		}
	})
	switch {
	case errors.Is(err, errAccepted):
		a.addViolation(a.scenario.Name, "the deletion of its namespace is accepted, although it has resources")
	case err != nil:
		return errNoTarget
	case accepted > 0:
		a.excuse(excusePolicy)
	}
	return nil
}

// errAccepted means that a request was accepted that must be refused.
var errAccepted = errors.New("the request was accepted")

// removeNamespace deletes the namespace of workspaces that are deleted. Nothing may keep it.
func (t *trial) removeNamespace(ctx context.Context) {
	err := await(ctx, func(ctx context.Context) error {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.namespace}}
		if err := t.client.Delete(ctx, namespace); err != nil {
			return client.IgnoreNotFound(err)
		}
		if err := t.client.Get(ctx, client.ObjectKeyFromObject(namespace), namespace); err != nil {
			return client.IgnoreNotFound(err)
		}
		return fmt.Errorf("it exists: %+v", namespace.Status.Conditions)
	})
	if err != nil && ctx.Err() == nil {
		t.addViolation("", "the namespace of deleted workspaces was not deleted: "+err.Error())
	}
}
