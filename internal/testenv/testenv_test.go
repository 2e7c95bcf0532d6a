package testenv_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
)

func TestEnvironment_collectsGarbage(t *testing.T) {
	g := NewWithT(t)
	ctx := context.Background()
	env := testenv.New(t, testenv.WithControllerManager())
	ns := env.Namespace(t)

	owner := &infrav1.WorkspaceTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "owner"},
		Spec: infrav1.WorkspaceTemplateSpec{Template: infrav1.WorkspaceTemplateDefinition{Spec: infrav1.WorkspaceSpec{
			ForProvider: infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: `output "x" { value = 1 }`},
		}}},
	}
	g.Expect(env.Client.Create(ctx, owner)).To(Succeed())
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: ns, Name: "owned",
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, infrav1.GroupVersion.WithKind("WorkspaceTemplate"))},
	}}
	g.Expect(env.Client.Create(ctx, owned)).To(Succeed())

	g.Expect(env.Client.Delete(ctx, owner)).To(Succeed())
	g.Eventually(func() bool {
		return apierrors.IsNotFound(env.Client.Get(ctx, client.ObjectKeyFromObject(owned), &corev1.ConfigMap{}))
	}).Should(BeTrue(), "the garbage collector deletes the objects of the template")
}

func TestEnvironment_failsIfTheManagerIsDenied(t *testing.T) {
	g := NewWithT(t)
	ctx := t.Context()
	env, err := testenv.Start()
	g.Expect(err).NotTo(HaveOccurred())
	manager, err := env.ManagerAccount()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(manager.Client.List(ctx, &corev1.SecretList{})).To(Succeed())
	g.Expect(apierrors.IsForbidden(manager.Client.List(ctx, &corev1.NodeList{}))).To(BeTrue())
	g.Expect(apierrors.IsForbidden(manager.Client.Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "more"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"delete"}}},
	}))).To(BeTrue())
	g.Expect(env.Client.List(ctx, &corev1.NodeList{})).To(Succeed(), "tests are administrators")
	g.Expect(env.Stop()).To(MatchError(And(
		ContainSubstring(`nodes is forbidden`), ContainSubstring("attempting to grant RBAC permissions not currently held"), Not(ContainSubstring("secrets is forbidden")),
	)))
}

func TestEnvironment_runsClusterAPI(t *testing.T) {
	g := NewWithT(t)
	ctx := context.Background()
	env := testenv.New(t, testenv.WithClusterAPI())
	cluster := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "c"},
		Spec: clusterv1.ClusterSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTCluster", Name: "c",
		}},
	}
	infra := &infrav1.CAPTCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: "c"},
		Spec:       infrav1.CAPTClusterSpec{Region: "ap-northeast-1", ExistingVPCID: "vpc-0123456789abcdef0"},
	}
	g.Expect(env.Client.Create(ctx, infra)).To(Succeed())
	g.Expect(env.Client.Create(ctx, cluster)).To(Succeed())

	g.Eventually(func(g Gomega) {
		g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(infra), infra)).To(Succeed())
		g.Expect(infra.OwnerReferences).To(ContainElement(HaveField("Name", "c")))
	}).Should(Succeed(), "Cluster API finds the kind by its contract label and sets the owner")
}
