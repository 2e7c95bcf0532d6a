package controlplane

import (
	_ "embed"
	"fmt"
	"net"
	"strconv"
)

const (
	// serviceNetwork is internal to the cluster. No packet is routed to it.
	serviceNetwork = "10.96.0.0/16"
	// advertisedAddress is the API server's address in the cluster, where a loopback
	// address is not allowed. Its range is reserved for documentation.
	advertisedAddress = "192.0.2.1"
	issuer            = "https://kubernetes.default.svc"
	// simulatedNodes selects the nodes that KWOK simulates.
	simulatedNodes = "kwok.x-k8s.io/node=fake"
)

// serviceAddress is the first address of serviceNetwork, which Kubernetes assigns to
// the API server.
var serviceAddress = net.IPv4(10, 96, 0, 1)

// stages configure how KWOK simulates the lifecycle of nodes and pods.
//
//go:embed kwok.yaml
var stages []byte

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func endpointOf(p *ports) string { return "https://" + loopback(p.numbers[APIServer]) }

// programs returns all programs of a request in the order in which they start.
func (l layout) programs(r *request, p *ports) []Program {
	list := []Program{l.etcd(r, p), l.apiServer(r, p)}
	if r.with("controller-manager") {
		list = append(list, l.controllerManager(r, p))
	}
	if r.with("scheduler") {
		list = append(list, l.scheduler(r, p))
	}
	if r.with("kwok") {
		list = append(list, l.kwok(r, p))
	}
	for _, program := range r.Programs {
		program.After = append([]string{APIServer}, program.After...)
		list = append(list, program)
	}
	return list
}

func (l layout) etcd(r *request, p *ports) Program {
	client := "https://" + loopback(p.numbers[Etcd])
	return Program{
		Name: Etcd, Path: r.Paths[Etcd],
		Args: []string{
			"--name=local",
			"--data-dir=" + l.etcdData(),
			"--listen-client-urls=" + client,
			"--advertise-client-urls=" + client,
			// A single member has no peers.
			"--listen-peer-urls=https://127.0.0.1:0",
			"--initial-advertise-peer-urls=https://127.0.0.1:2380",
			"--initial-cluster=local=https://127.0.0.1:2380",
			"--cert-file=" + l.pki(etcdServerPair+".crt"),
			"--key-file=" + l.pki(etcdServerPair+".key"),
			"--trusted-ca-file=" + l.pki(etcdCA+".crt"),
			"--client-cert-auth",
			"--peer-cert-file=" + l.pki(etcdServerPair+".crt"),
			"--peer-key-file=" + l.pki(etcdServerPair+".key"),
			"--peer-trusted-ca-file=" + l.pki(etcdCA+".crt"),
			"--peer-client-cert-auth",
			// Data survives the exit of every process, but not a power failure.
			"--unsafe-no-fsync",
			// A single member wins its election as soon as the timeout allows one.
			"--heartbeat-interval=25",
			"--election-timeout=125",
			"--log-level=warn",
		},
		ReadyURL: client + "/readyz",
	}
}

func (l layout) apiServer(r *request, p *ports) Program {
	args := []string{
		"--emulated-version=" + r.KubernetesVersion,
		"--etcd-servers=https://" + loopback(p.numbers[Etcd]),
		"--etcd-cafile=" + l.pki(etcdCA+".crt"),
		"--etcd-certfile=" + l.pki(etcdClientPair+".crt"),
		"--etcd-keyfile=" + l.pki(etcdClientPair+".key"),
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(p.numbers[APIServer]),
		"--advertise-address=" + advertisedAddress,
		"--endpoint-reconciler-type=none",
		"--tls-cert-file=" + l.pki(servingPair+".crt"),
		"--tls-private-key-file=" + l.pki(servingPair+".key"),
		"--client-ca-file=" + l.pki(clusterCA+".crt"),
		"--service-account-issuer=" + issuer,
		"--service-account-key-file=" + l.pki(accountPublic),
		"--service-account-signing-key-file=" + l.pki(accountKey),
		"--service-cluster-ip-range=" + serviceNetwork,
		"--authorization-mode=Node,RBAC",
		"--allow-privileged",
		// The few clients need no flow control, which delays the start by a second.
		"--enable-priority-and-fairness=false",
		"--profiling=false",
	}
	if !r.with("controller-manager") {
		// No controller creates the service accounts that the plugin requires.
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	program := Program{Name: APIServer, Path: r.Paths[APIServer], After: []string{Etcd}, ReadyURL: endpointOf(p) + "/readyz"}
	if r.TokenWebhook != "" {
		args = append(args, "--authentication-token-webhook-config-file="+r.TokenWebhook, "--authentication-token-webhook-version=v1",
			"--authentication-token-webhook-cache-ttl=5s")
		program.Files = []string{r.TokenWebhook}
	}
	program.Args = args
	return program
}

// controlArgs returns the common flags of controller-manager and scheduler.
func (l layout) controlArgs(r *request, port int) []string {
	return []string{
		"--emulated-version=" + r.KubernetesVersion,
		"--kubeconfig=" + l.kubeconfig(),
		"--leader-elect=false",
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + l.pki(servingPair+".crt"),
		"--tls-private-key-file=" + l.pki(servingPair+".key"),
		"--profiling=false",
	}
}

func (l layout) controllerManager(r *request, p *ports) Program {
	port := p.numbers[ControllerManager]
	return Program{
		Name: ControllerManager, Path: r.Paths[ControllerManager], After: []string{APIServer},
		Args: append(l.controlArgs(r, port),
			"--cluster-name="+r.Name,
			"--service-account-private-key-file="+l.pki(accountKey),
			"--root-ca-file="+l.caCertificate(),
			"--cluster-signing-cert-file="+l.pki(clusterCA+".crt"),
			"--cluster-signing-key-file="+l.pki(clusterCA+".key"),
			"--use-service-account-credentials=false",
		),
		ReadyURL: fmt.Sprintf("https://%s/healthz", loopback(port)),
	}
}

func (l layout) scheduler(r *request, p *ports) Program {
	port := p.numbers[Scheduler]
	return Program{
		Name: Scheduler, Path: r.Paths[Scheduler], After: []string{APIServer},
		Args:     l.controlArgs(r, port),
		ReadyURL: fmt.Sprintf("https://%s/healthz", loopback(port)),
	}
}

func (l layout) kwok(r *request, p *ports) Program {
	address := loopback(p.numbers[Kwok])
	return Program{
		Name: Kwok, Path: r.Paths[Kwok], After: []string{APIServer},
		Args: []string{
			"--kubeconfig=" + l.kubeconfig(),
			"--config=" + l.stages(),
			"--manage-nodes-with-annotation-selector=" + simulatedNodes,
			"--node-lease-duration-seconds=40",
			"--server-address=" + address,
			// At a lower level KWOK logs every renewal of a lease.
			"--v=WARN",
		},
		Files:    []string{l.stages()},
		ReadyURL: "http://" + address + "/healthz",
	}
}
