package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// fillGaps wraps moto's EC2 and corrects differences between moto 5.2.5 and AWS that
// Terraform reports as changes:
//
//   - the description of a rule for another security group is lost when the rule is
//     created, but stored when it is changed;
//   - a rule for all protocols cannot be changed, because it has no ports;
//   - the tags of a launch template are also returned as tags of its instances, and
//     later changes of them are not returned at all;
//   - an instance cannot have the image's disk without a size;
//   - the names that instances get in DNS are not returned; these are the default;
//   - a gateway endpoint that got further route tables cannot be deleted, because they have
//     no routes to it;
//   - the state of a subnet's IPv6 network is not a word;
//   - deleted NAT gateways and terminated instances keep their network interfaces;
//   - objects are deleted although others depend on them.
func fillGaps(moto string, next http.Handler) http.Handler {
	return withForm("ec2", next, func(w http.ResponseWriter, r *http.Request, form url.Values) {
		e := ec2{moto: moto, region: scopeOf(r).region}
		follow := func(answer []byte) ([]byte, error) { return answer, nil }
		switch form.Get("Action") {
		case "ModifySecurityGroupRules":
			givePorts(form)
		case "AuthorizeSecurityGroupIngress", "AuthorizeSecurityGroupEgress":
			follow = e.describeRule(r, form)
		case "CreateLaunchTemplate":
			follow = e.tagTemplate(r, form)
		case "DescribeLaunchTemplates":
			follow = func(answer []byte) ([]byte, error) { return e.showTags(r, answer) }
		case "RunInstances":
			giveSizes(form)
		case "DescribeInstances":
			follow = showNameOptions
		case "AssociateSubnetCidrBlock", "CreateSubnet", "DescribeSubnets", "DisassociateSubnetCidrBlock":
			follow = showIPv6States
		case "DeleteNatGateway":
			follow = e.releaseGateway(r, form)
		case "TerminateInstances":
			follow = e.releaseInstances(r, form)
		}
		err := e.checkDependencies(r, form)
		if refused, is := errors.AsType[ec2Refusal](err); is {
			refused.respond(w)
			return
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		response := forward(next, r, form)
		for form.Get("Action") == "DeleteVpcEndpoints" && e.dropTable(r, form, response) {
			response = forward(next, r, form)
		}
		if response.status == http.StatusOK {
			if response.text, err = follow(response.text); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		response.copyTo(w)
	})
}

// withForm returns a handler that calls handle with the form of each call of a service,
// and next with all other requests.
func withForm(service string, next http.Handler, handle func(w http.ResponseWriter, r *http.Request, form url.Values)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if scopeOf(r).service != service || r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		form, err := url.ParseQuery(string(body))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		handle(w, r, form)
	})
}

// forward sends a request with another form to next, and returns the response.
func forward(next http.Handler, r *http.Request, form url.Values) *recorder {
	text := form.Encode()
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	response := &recorder{header: http.Header{}, status: http.StatusOK}
	next.ServeHTTP(response, r)
	return response
}

// givePorts adds the ports that AWS returns for a rule for all protocols.
func givePorts(form url.Values) {
	for i := 1; ; i++ {
		rule := fmt.Sprintf("SecurityGroupRule.%d.SecurityGroupRule.", i)
		if !form.Has(rule + "IpProtocol") {
			return
		}
		if form.Get(rule+"IpProtocol") == "-1" {
			form.Set(rule+"FromPort", "-1")
			form.Set(rule+"ToPort", "-1")
		}
	}
}

var withoutRoute = regexp.MustCompile(`InvalidRoute\.NotFound[\s\S]*in route table (rtb-[0-9a-f]+)`)

// dropTable removes the route table without a route from the endpoint that could not be
// deleted. It reports whether there was one.
func (e ec2) dropTable(r *http.Request, form url.Values, refused *recorder) bool {
	match := withoutRoute.FindSubmatch(refused.text)
	if refused.status == http.StatusOK || match == nil {
		return false
	}
	change := url.Values{"VpcEndpointId": {form.Get("VpcEndpointId.1")}, "RemoveRouteTableId.1": {string(match[1])}}
	return e.do(r.Context(), "ModifyVpcEndpoint", change, nil) == nil
}

// ipv6State matches the state of an IPv6 network as moto returns it: as text of Python.
var ipv6State = regexp.MustCompile(`<state>\{[^<]*State[^<]*?: [^<a-z]*([a-z]+)[^<a-z]*\}</state>`)

func showIPv6States(answer []byte) ([]byte, error) {
	return ipv6State.ReplaceAll(answer, []byte("<state>$1</state>")), nil
}

// giveSizes sets the size of disks that have that of the image's snapshot.
func giveSizes(form url.Values) {
	for i := 1; ; i++ {
		disk := fmt.Sprintf("BlockDeviceMapping.%d.", i)
		if !form.Has(disk + "DeviceName") {
			return
		}
		if form.Has(disk+"Ebs.VolumeType") && !form.Has(disk+"Ebs.VolumeSize") && !form.Has(disk+"Ebs.SnapshotId") {
			form.Set(disk+"Ebs.VolumeSize", "8")
		}
	}
}

// describeRule sets the description of a new rule for a security group with a second
// call.
func (e ec2) describeRule(r *http.Request, form url.Values) func([]byte) ([]byte, error) {
	permission := "IpPermissions.1."
	description := form.Get(permission + "Groups.1.Description")
	return func(answer []byte) ([]byte, error) {
		if description == "" {
			return answer, nil
		}
		var made struct {
			IDs []string `xml:"securityGroupRuleSet>item>securityGroupRuleId"`
		}
		if err := xml.Unmarshal(answer, &made); err != nil {
			return nil, fmt.Errorf("reading the new rule: %w", err)
		}
		if len(made.IDs) != 1 {
			return nil, fmt.Errorf("expected one new rule, not %d", len(made.IDs))
		}
		rule := "SecurityGroupRule.1.SecurityGroupRule."
		change := url.Values{
			"GroupId": {form.Get("GroupId")}, "SecurityGroupRule.1.SecurityGroupRuleId": {made.IDs[0]},
			rule + "Description": {description}, rule + "ReferencedGroupId": {form.Get(permission + "Groups.1.GroupId")},
			rule + "IpProtocol": {form.Get(permission + "IpProtocol")},
			rule + "FromPort":   {form.Get(permission + "FromPort")}, rule + "ToPort": {form.Get(permission + "ToPort")},
		}
		givePorts(change)
		return answer, e.do(r.Context(), "ModifySecurityGroupRules", change, nil)
	}
}

// tagTemplate removes the tags from the request and sets them afterwards.
func (e ec2) tagTemplate(r *http.Request, form url.Values) func([]byte) ([]byte, error) {
	tags := url.Values{}
	for name := range form {
		if rest, is := strings.CutPrefix(name, "TagSpecification.1."); is {
			tags.Set(rest, form.Get(name))
			form.Del(name)
		}
	}
	tags.Del("ResourceType")
	return func(answer []byte) ([]byte, error) {
		if len(tags) == 0 {
			return answer, nil
		}
		var made struct {
			ID string `xml:"launchTemplate>launchTemplateId"`
		}
		if err := xml.Unmarshal(answer, &made); err != nil {
			return nil, fmt.Errorf("reading the new launch template: %w", err)
		}
		tags.Set("ResourceId.1", made.ID)
		return answer, e.do(r.Context(), "CreateTags", tags, nil)
	}
}

var (
	tagSets     = regexp.MustCompile(`(?s)<tagSet/>|<tagSet>.*?</tagSet>`)
	templateIDs = regexp.MustCompile(`<launchTemplateId>([^<]+)</launchTemplateId>`)
)

// showTags adds the current tags of launch templates to a response.
func (e ec2) showTags(r *http.Request, answer []byte) ([]byte, error) {
	var failed error
	shown := templateIDs.ReplaceAllFunc(tagSets.ReplaceAll(answer, nil), func(id []byte) []byte {
		var found struct {
			Tags []struct {
				Key   string `xml:"key"`
				Value string `xml:"value"`
			} `xml:"tagSet>item"`
		}
		query := url.Values{"Filter.1.Name": {"resource-id"}, "Filter.1.Value.1": {string(templateIDs.FindSubmatch(id)[1])}}
		if err := e.do(r.Context(), "DescribeTags", query, &found); err != nil {
			failed = err
			return id
		}
		var set struct {
			XMLName xml.Name `xml:"tagSet"`
			Items   any      `xml:"item"`
		}
		set.Items = found.Tags
		text, err := xml.Marshal(set)
		failed = errors.Join(failed, err)
		return append(slices.Clone(id), text...)
	})
	return shown, failed
}

var instanceIDs = regexp.MustCompile(`<instanceId>[^<]+</instanceId>`)

// showNameOptions adds the options of the DNS name of each instance to a response.
func showNameOptions(answer []byte) ([]byte, error) {
	return instanceIDs.ReplaceAll(answer, []byte("$0<privateDnsNameOptions><hostnameType>ip-name</hostnameType>"+
		"<enableResourceNameDnsARecord>false</enableResourceNameDnsARecord><enableResourceNameDnsAAAARecord>false</enableResourceNameDnsAAAARecord></privateDnsNameOptions>")), nil
}

// recorder records a response, so that it can be changed before it is sent.
type recorder struct {
	header http.Header
	status int
	text   []byte
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) { r.status = status }

// Write implements http.ResponseWriter.
func (r *recorder) Write(text []byte) (int, error) {
	r.text = append(r.text, text...)
	return len(text), nil
}

func (r *recorder) copyTo(w http.ResponseWriter) {
	maps.Copy(w.Header(), r.header)
	w.Header().Set("Content-Length", strconv.Itoa(len(r.text)))
	w.WriteHeader(r.status)
	_, _ = w.Write(r.text)
}
