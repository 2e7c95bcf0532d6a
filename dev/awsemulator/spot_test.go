package main

import (
	"strings"
	"testing"
)

func TestSpot_instancesHaveARequest(t *testing.T) {
	r := newHarness(t)
	const found = `<R><reservationSet><item><instancesSet><item><instanceId>i-1a</instanceId></item></instancesSet></item></reservationSet></R>`
	r.answers = map[string]string{"RunInstances": found, "DescribeInstances": found}
	ask := func(status int, contains, form string) {
		t.Helper()
		if got, text := r.do("ec2", "POST", "/", form); got != status || !strings.Contains(text, contains) {
			t.Fatalf("%s: got %d %s, want %d and %q", form, got, text, status, contains)
		}
	}
	ask(200, "<item><instanceId>i-1a</instanceId></item>", "Action=RunInstances")
	ask(400, "InvalidSpotInstanceRequestID.NotFound", "Action=DescribeSpotInstanceRequests&SpotInstanceRequestId.1=sir-1a")
	ask(200, "<spotInstanceRequestId>sir-1a</spotInstanceRequestId>", "Action=RunInstances&InstanceMarketOptions.MarketType=spot")
	ask(200, "<instanceLifecycle>spot</instanceLifecycle>", "Action=DescribeInstances")
	ask(200, "<state>active</state>", "Action=DescribeSpotInstanceRequests&SpotInstanceRequestId.1=sir-1a")
	ask(200, "<state>cancelled</state>", "Action=CancelSpotInstanceRequests&SpotInstanceRequestId.1=sir-1a")
	ask(200, "<state>cancelled</state>", "Action=DescribeSpotInstanceRequests&SpotInstanceRequestId.1=sir-1a")
}
