package main

import (
	"context"
	"fmt"
	"os/exec"

	"github.com/appthrust/capt/internal/testenv"
)

// awsApplies is how many workspaces with the AWS provider are applied per round.
const awsApplies = 6

// network is what modules of the AWS provider usually begin with.
const network = `
resource "aws_vpc" "this" {
  cidr_block = "10.0.0.0/16"
  tags       = { Name = var.name }
}
resource "aws_subnet" "this" {
  count      = 2
  vpc_id     = aws_vpc.this.id
  cidr_block = cidrsubnet(aws_vpc.this.cidr_block, 8, count.index)
}
resource "terraform_data" "this" { input = aws_vpc.this.id }
`

// measureAWS compares the engine with the plain tool for modules of the real AWS provider,
// on the emulator of AWS.
func measureAWS(ctx context.Context) (*engineReport, error) {
	provider := providers[0]
	if _, err := exec.LookPath("python3"); err != nil {
		logf("engine with AWS: skipped: the emulator of AWS needs Python 3")
		return &engineReport{Skipped: "the emulator of AWS needs Python 3"}, nil
	}
	logf("engine with AWS: starting the emulator, which installs moto if it is missing")
	url, stop, err := testenv.StartAWS()
	if err != nil {
		return nil, err
	}
	defer stop()
	provider.module = network
	return measureEngine(ctx, workload{
		name: "engine with AWS", applies: awsApplies, provider: &provider,
		module: func(round int) string { return fmt.Sprintf("# Round %d.\n%s", round, provider.text()) },
		env: map[string]string{
			"AWS_ENDPOINT_URL": url, "AWS_REGION": "eu-central-1", "AWS_EC2_METADATA_DISABLED": "true",
			"AWS_ACCESS_KEY_ID": "emulated", "AWS_SECRET_ACCESS_KEY": "emulated",
		},
	})
}
