package command

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
)

func TestClassify(t *testing.T) {
	const (
		transient = terraform.ClassTransient
		terminal  = terraform.ClassTerminal
	)
	tests := []struct {
		class           terraform.Class
		summary, detail string
	}{
		{transient, "creating EC2 VPC: operation error EC2: CreateVpc, https response error StatusCode: 503, RequestID: x, api error RequestLimitExceeded: Request limit exceeded.", ""},
		{transient, "reading EKS Cluster (x): operation error EKS: DescribeCluster, exceeded maximum number of attempts, 3, https response error StatusCode: 429, ThrottlingException: Rate exceeded", ""},
		{transient, "creating IAM Role: Throttling: Rate exceeded\n\tstatus code: 400, request id: x", ""},
		{transient, "reading S3 Bucket: SlowDown: Please reduce your request rate.", ""},
		{transient, "error loading state", `Get "https://10.0.0.1:443/api/v1/namespaces/a/secrets/b": dial tcp 10.0.0.1:443: connect: connection refused`},
		{transient, "Error refreshing state", `Get "https://10.0.0.1:443/": net/http: TLS handshake timeout`},
		{transient, "Failed to save state", `Error saving state: Put "https://10.0.0.1": read tcp 1.2.3.4:5->10.0.0.1:443: read: connection reset by peer`},
		{transient, "Failed to save state", `Error saving state: etcdserver: request timed out`},
		{transient, "Failed to save state", `Error saving state: Operation cannot be fulfilled on secrets "x": the object has been modified; please apply your changes to the latest version and try again`},
		{transient, "waiting for EKS Cluster (x) create: unexpected EOF", ""},
		{transient, `Post "https://sts.eu-west-1.amazonaws.com/": EOF`, ""},
		{transient, "reading EC2 Subnet: i/o timeout", ""},
		{transient, "creating Lambda Function", "operation error Lambda: CreateFunction, https response error StatusCode: 500, InternalFailure"},
		{transient, "Failed to resolve provider packages", `Could not resolve provider hashicorp/aws: could not connect to registry.opentofu.org: failed to request discovery document: Get "https://registry.opentofu.org/.well-known/terraform.json": dial tcp: lookup registry.opentofu.org on 10.255.255.53:53: no such host`},
		{transient, "Failed to install provider", "Error while installing hashicorp/aws v6.0.0: could not query provider registry for registry.opentofu.org/hashicorp/aws: failed to retrieve authentication checksums for provider: 502 Bad Gateway returned from github.com"},
		{transient, "Failed to download module", "Could not download module \"m\" (main.tf:1) source code from \"git::https://example.com/x.git\": error downloading: /usr/bin/git exited with 128: fatal: unable to access: Could not resolve\nhost: example.com"},
		{transient, "creating EC2 Instance: InvalidSubnetID.NotFound: The subnet ID 'subnet-0' does not exist", ""},
		{transient, "associating EC2 Route Table: InvalidRouteTableID.NotFound", ""},
		{transient, "creating EKS Cluster: InvalidParameterException: api error InvalidParameterValue: The role cannot be assumed by Amazon EKS", ""},
		{transient, "setting policy", "MalformedPolicyDocument: Invalid principal in policy: \"AWS\":\"arn:aws:iam::1:role/x\""},
		{transient, "deleting EC2 VPC (vpc-0): DependencyViolation: The vpc 'vpc-0' has dependencies and cannot be deleted.", ""},
		{transient, "deleting EKS Node Group: ResourceInUseException: Nodegroup is being updated", ""},
		{transient, "operation error STS: AssumeRoleWithWebIdentity, StatusCode: 400, ExpiredTokenException: Token expired", ""},
		{transient, "local-exec provisioner error", "Error running command 'exit 3': exit status 3. Output:"},
		{transient, "an unknown error", ""},
		{transient, "Plugin did not respond", "The plugin encountered an error, and failed to respond to the plugin6.(*GRPCProvider).PlanResourceChange call. The plugin logs may contain more details."},

		{terraform.ClassLockHeld, "Error acquiring the state lock", "Error message: resource temporarily unavailable\nLock Info:\n  ID:        467ab524\n"},
		{terraform.ClassLockHeld, "error loading state: the state is already locked by another tofu client\nLock Info:\n  ID:        x", ""},

		{terminal, "creating EKS Cluster (x): operation error EKS: CreateCluster, https response error StatusCode: 403, RequestID: x, AccessDeniedException: User: arn:aws:iam::1:user/x is not authorized to perform: eks:CreateCluster", ""},
		{terminal, "creating EC2 VPC: operation error EC2: CreateVpc, https response error StatusCode: 403, api error UnauthorizedOperation: You are not authorized to perform this operation. Encoded authorization failure message: eofEOFx", ""},
		{terminal, "Retrieving AWS account details: operation error STS: GetCallerIdentity, https response error StatusCode: 403, api error InvalidClientTokenId: The security token included in the request is invalid.", ""},
		{terminal, "No valid credential sources found", "Please see https://registry.terraform.io/providers/hashicorp/aws for more information about providing credentials.\n\nError: failed to refresh cached credentials, no EC2 IMDS role found"},
		{terminal, `secrets "x" is forbidden: User "system:serviceaccount:a:b" cannot update resource "secrets"`, ""},
		{terminal, "Failed to query available provider packages", "Could not retrieve the list of available versions for provider hashicorp/nope: provider registry.opentofu.org/hashicorp/nope was not found in any of the search locations\n\n  - /tmp/x/mirror"},
		{terminal, "Failed to query available provider packages", "Could not retrieve the list of available versions for provider x/nope: provider registry registry.opentofu.org does not have a provider named registry.opentofu.org/x/nope"},
		{terminal, "Failed to query available provider packages", "Could not retrieve the list of available versions for provider hashicorp/aws: no available releases match the given constraints ~> 99.0"},
		{terminal, "Unsupported argument", "An argument named \"inptu\" is not expected here. Did you mean \"input\"?"},
		{terminal, "Missing required argument", "The argument \"cidr_block\" is required, but no definition was found."},
		{terminal, "No value for required variable", "The root module input variable \"x\" is not set, and has no default value."},
		{terminal, "Invalid value for input variable", "Unsuitable value for var.n set using the TF_VAR_n environment variable: a number is required."},
		{terminal, "creating IAM Role (x): EntityAlreadyExists: Role with name x already exists.", ""},
		{terminal, "creating EC2 VPC: VpcLimitExceeded: The maximum number of VPCs has been reached.", ""},
		{terminal, "Instance cannot be destroyed", "Resource aws_vpc.this has lifecycle.prevent_destroy set"},
		{terminal, "Saved plan is stale", "The given plan file can no longer be applied because the state was changed by another operation after the plan was created."},
		{terminal, "Failed to save state", `Error saving state: Secret "tfstate-default-x" is invalid: data: Too long: may not be more than 1048576 bytes`},
		{terminal, "Failed to save state", "Error saving state: rpc error: code = ResourceExhausted desc = trying to send message larger than max (2456789 vs. 2097152)"},
		{terminal, "Failed to download module", "fatal: Authentication failed for 'https://example.com/x.git/'"},
	}
	for _, test := range tests {
		g := NewWithT(t)
		diagnostics := terraform.Diagnostics{{Severity: terraform.SeverityError, Summary: test.summary, Detail: test.detail, Address: "a.b"}}
		g.Expect(Classify(diagnostics)).To(Equal(test.class), test.summary+": "+test.detail)
	}
}

func TestClassify_ofSeveralDiagnostics(t *testing.T) {
	g := NewWithT(t)
	denied := terraform.Diagnostic{Severity: terraform.SeverityError, Summary: "AccessDenied"}
	throttled := terraform.Diagnostic{Severity: terraform.SeverityError, Summary: "Throttling"}
	unknown := terraform.Diagnostic{Severity: terraform.SeverityError, Summary: "whatever"}
	warning := terraform.Diagnostic{Severity: terraform.SeverityWarning, Summary: "AccessDenied"}
	config := terraform.Diagnostic{Severity: terraform.SeverityError, Summary: "Whatever", File: "main.tf", Line: 1}
	g.Expect(Classify(terraform.Diagnostics{denied, throttled})).To(Equal(terraform.ClassTransient), "a transient error is retried")
	g.Expect(Classify(terraform.Diagnostics{unknown, denied})).To(Equal(terraform.ClassTerminal))
	g.Expect(Classify(terraform.Diagnostics{warning, unknown})).To(Equal(terraform.ClassTransient))
	g.Expect(Classify(terraform.Diagnostics{config})).To(Equal(terraform.ClassTerminal), "the configuration is invalid")
	g.Expect(Classify(nil)).To(Equal(terraform.ClassTransient))
}

func TestParseLockInfo(t *testing.T) {
	g := NewWithT(t)
	info := parseLockInfo(`Error message: resource temporarily unavailable
Lock Info:
  ID:        467ab524-c275-9c9b-3d69-ed0b57a1ce86
  Path:      /tmp/x/q
  Operation: OperationTypeApply
  Who:       root@vm
  Version:   1.12.6
  Created:   2026-11-15 02:19:01.467540864 +0000 UTC
  Info:      


OpenTofu acquires a state lock to protect the state`)
	g.Expect(info).To(Equal(&terraform.LockInfo{
		ID: "467ab524-c275-9c9b-3d69-ed0b57a1ce86", Path: "/tmp/x/q", Operation: "OperationTypeApply", Who: "root@vm",
		Version: "1.12.6", Created: "2026-11-15 02:19:01.467540864 +0000 UTC",
	}))
	g.Expect(parseLockInfo("no lock here")).To(BeNil())
}
