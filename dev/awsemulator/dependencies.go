package main

import (
	"context"
	"encoding/xml"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// ec2Refusal is an error of EC2.
type ec2Refusal struct{ code, message string }

// dependencyViolation returns EC2's error for an object that others depend on. Like EC2's,
// its message does not name them.
func dependencyViolation(message string) error { return ec2Refusal{"DependencyViolation", message} }

// Error implements error.
func (e ec2Refusal) Error() string { return e.code + ": " + e.message }

// respond writes the error in the format of EC2.
func (e ec2Refusal) respond(w http.ResponseWriter) {
	type failure struct {
		Code    string   `xml:"Errors>Error>Code"`
		Message string   `xml:"Errors>Error>Message"`
		Request string   `xml:"RequestID"`
		XMLName struct{} `xml:"Response"`
	}
	text, err := xml.Marshal(failure{Code: e.code, Message: e.message, Request: "0"})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/xml")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write(text)
}

// checkDependencies returns an ec2Refusal if EC2 would reject a call because others use the
// object that it deletes. moto deletes most objects nevertheless.
func (e ec2) checkDependencies(r *http.Request, form url.Values) error {
	ctx := r.Context()
	switch form.Get("Action") {
	case "DeleteSecurityGroup":
		return e.checkGroup(ctx, form.Get("GroupId"))
	case "DeleteSubnet":
		return e.checkSubnet(ctx, form.Get("SubnetId"))
	case "DeleteNetworkInterface":
		return e.checkInterface(ctx, form.Get("NetworkInterfaceId"))
	case "DetachInternetGateway":
		return e.checkGateway(ctx, form.Get("VpcId"))
	case "DeleteVpc":
		return e.checkVPC(ctx, form.Get("VpcId"))
	}
	return nil
}

// networkInterface is a network interface of EC2.
type networkInterface struct {
	ID          string   `xml:"networkInterfaceId"`
	Subnet      string   `xml:"subnetId"`
	VPC         string   `xml:"vpcId"`
	Description string   `xml:"description"`
	Groups      []string `xml:"groupSet>item>groupId"`
	Instance    string   `xml:"attachment>instanceId"`
	Attachment  string   `xml:"attachment>attachmentId"`
	Device      int      `xml:"attachment>deviceIndex"`
	PublicIP    string   `xml:"association>publicIp"`
}

// interfaces returns all network interfaces. moto's filter for security groups misses
// those of an instance.
func (e ec2) interfaces(ctx context.Context) ([]networkInterface, error) {
	var found struct {
		Items []networkInterface `xml:"networkInterfaceSet>item"`
	}
	err := e.do(ctx, "DescribeNetworkInterfaces", url.Values{}, &found)
	return found.Items, err
}

// endpoint is a VPC endpoint.
type endpoint struct {
	VPC    string   `xml:"vpcId"`
	State  string   `xml:"state"`
	Groups []string `xml:"groupSet>item>groupId"`
}

// endpoints returns the endpoints that are not deleted.
func (e ec2) endpoints(ctx context.Context) ([]endpoint, error) {
	var found struct {
		Items []endpoint `xml:"vpcEndpointSet>item"`
	}
	err := e.do(ctx, "DescribeVpcEndpoints", url.Values{}, &found)
	return slices.DeleteFunc(found.Items, func(e endpoint) bool { return e.State == "deleted" }), err
}

// checkGroup rejects the deletion of a security group that a network interface, an
// endpoint or a rule of another group uses.
func (e ec2) checkGroup(ctx context.Context, id string) error {
	interfaces, err := e.interfaces(ctx)
	if err != nil {
		return err
	}
	endpoints, err := e.endpoints(ctx)
	if err != nil {
		return err
	}
	var rules struct {
		Items []struct {
			Group      string `xml:"groupId"`
			Referenced string `xml:"referencedGroupInfo>groupId"`
		} `xml:"securityGroupRuleSet>item"`
	}
	if err := e.do(ctx, "DescribeSecurityGroupRules", url.Values{}, &rules); err != nil {
		return err
	}
	used := slices.ContainsFunc(interfaces, func(i networkInterface) bool { return slices.Contains(i.Groups, id) }) ||
		slices.ContainsFunc(endpoints, func(e endpoint) bool { return slices.Contains(e.Groups, id) })
	for _, rule := range rules.Items {
		used = used || rule.Referenced == id && rule.Group != id
	}
	if used {
		return dependencyViolation("resource " + id + " has a dependent object")
	}
	return nil
}

// checkInterface rejects the deletion of a network interface of a control plane, which EKS
// uses until the cluster is deleted.
func (e ec2) checkInterface(ctx context.Context, id string) error {
	interfaces, err := e.interfaces(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(interfaces, func(i networkInterface) bool {
		return i.ID == id && strings.HasPrefix(i.Description, controlPlaneInterface)
	}) {
		return ec2Refusal{"InvalidParameterValue", "Network interface '" + id + "' is currently in use."}
	}
	return nil
}

// checkSubnet rejects the deletion of a subnet with network interfaces.
func (e ec2) checkSubnet(ctx context.Context, id string) error {
	interfaces, err := e.interfaces(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(interfaces, func(i networkInterface) bool { return i.Subnet == id }) {
		return dependencyViolation("The subnet '" + id + "' has dependencies and cannot be deleted.")
	}
	return nil
}

// checkGateway rejects the detachment of an internet gateway from a VPC with public
// addresses.
func (e ec2) checkGateway(ctx context.Context, vpc string) error {
	interfaces, err := e.interfaces(ctx)
	if err != nil {
		return err
	}
	var elastic struct {
		Interfaces []string `xml:"addressesSet>item>networkInterfaceId"`
	}
	if err := e.do(ctx, "DescribeAddresses", url.Values{}, &elastic); err != nil {
		return err
	}
	mapped := func(i networkInterface) bool {
		return i.VPC == vpc && (i.PublicIP != "" || slices.Contains(elastic.Interfaces, i.ID))
	}
	if slices.ContainsFunc(interfaces, mapped) {
		return dependencyViolation("Network " + vpc + " has some mapped public address(es). Please unmap those public address(es) before detaching the gateway.")
	}
	return nil
}

// checkVPC rejects the deletion of a VPC with an internet gateway, endpoints or security
// groups other than the default one. moto rejects it for subnets and route tables.
func (e ec2) checkVPC(ctx context.Context, id string) error {
	var gateways struct {
		VPCs []string `xml:"internetGatewaySet>item>attachmentSet>item>vpcId"`
	}
	if err := e.do(ctx, "DescribeInternetGateways", url.Values{}, &gateways); err != nil {
		return err
	}
	endpoints, err := e.endpoints(ctx)
	if err != nil {
		return err
	}
	var groups struct {
		Items []struct {
			VPC  string `xml:"vpcId"`
			Name string `xml:"groupName"`
		} `xml:"securityGroupInfo>item"`
	}
	if err := e.do(ctx, "DescribeSecurityGroups", url.Values{}, &groups); err != nil {
		return err
	}
	used := slices.Contains(gateways.VPCs, id) || slices.ContainsFunc(endpoints, func(e endpoint) bool { return e.VPC == id })
	for _, group := range groups.Items {
		used = used || group.VPC == id && group.Name != "default"
	}
	if used {
		return dependencyViolation("The vpc '" + id + "' has dependencies and cannot be deleted.")
	}
	return nil
}

// releaseGateway deletes the network interface of a deleted NAT gateway, which moto
// keeps.
func (e ec2) releaseGateway(r *http.Request, form url.Values) func([]byte) ([]byte, error) {
	return func(answer []byte) ([]byte, error) {
		return answer, e.deleteGatewayInterfaces(r.Context(), form.Get("NatGatewayId"))
	}
}

func (e ec2) deleteGatewayInterfaces(ctx context.Context, id string) error {
	var found struct {
		Addresses []struct {
			Interface   string `xml:"networkInterfaceId"`
			Association string `xml:"associationId"`
		} `xml:"natGatewaySet>item>natGatewayAddressSet>item"`
	}
	if err := e.do(ctx, "DescribeNatGateways", url.Values{"NatGatewayId.1": {id}}, &found); err != nil {
		return err
	}
	for _, address := range found.Addresses {
		if address.Association != "" {
			if err := e.do(ctx, "DisassociateAddress", url.Values{"AssociationId": {address.Association}}, nil); err != nil {
				return err
			}
		}
		if err := e.do(ctx, "DeleteNetworkInterface", url.Values{"NetworkInterfaceId": {address.Interface}}, nil); err != nil {
			return err
		}
	}
	return nil
}

// releaseInstances deletes the first network interface of terminated instances and
// detaches the others. moto leaves all of them attached.
func (e ec2) releaseInstances(r *http.Request, form url.Values) func([]byte) ([]byte, error) {
	return func(answer []byte) ([]byte, error) {
		return answer, e.detachInstances(r.Context(), listOf(form, "InstanceId"))
	}
}

func (e ec2) detachInstances(ctx context.Context, instances []string) error {
	interfaces, err := e.interfaces(ctx)
	if err != nil {
		return err
	}
	for _, i := range interfaces {
		if !slices.Contains(instances, i.Instance) {
			continue
		}
		if i.Device == 0 {
			err = errors.Join(err, e.do(ctx, "DeleteNetworkInterface", url.Values{"NetworkInterfaceId": {i.ID}}, nil))
		} else {
			err = errors.Join(err, e.do(ctx, "DetachNetworkInterface", url.Values{"AttachmentId": {i.Attachment}}, nil))
		}
	}
	return err
}

// controlPlaneInterface begins the descriptions of the network interfaces of control planes.
const controlPlaneInterface = "Amazon EKS "

// addInterfaces creates the network interfaces of a control plane, one in each subnet.
func (e *eks) addInterfaces(c *call, cluster, group string, subnets []string) error {
	for _, subnet := range subnets {
		err := e.inEC2(c).do(c.Context(), "CreateNetworkInterface", url.Values{
			"SubnetId": {subnet}, "SecurityGroupId.1": {group}, "Description": {controlPlaneInterface + cluster},
		}, nil)
		if err != nil {
			return err
		}
	}
	return nil
}

// removeInterfaces deletes the network interfaces of a control plane, and its security
// group. Like EKS, it leaves a group that is still in use.
func (e *eks) removeInterfaces(c *call, cluster, group string) error {
	interfaces, err := e.inEC2(c).interfaces(c.Context())
	if err != nil {
		return err
	}
	for _, i := range interfaces {
		if i.Description != controlPlaneInterface+cluster {
			continue
		}
		if err := e.inEC2(c).do(c.Context(), "DeleteNetworkInterface", url.Values{"NetworkInterfaceId": {i.ID}}, nil); err != nil {
			return err
		}
	}
	err = e.inEC2(c).checkGroup(c.Context(), group)
	if _, used := errors.AsType[ec2Refusal](err); used {
		return nil
	}
	if err != nil {
		return err
	}
	return e.removeSecurityGroup(c, group)
}
