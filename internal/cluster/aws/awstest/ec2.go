package awstest

import (
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// VPC is a network of the account.
type VPC struct {
	ID   string
	CIDR string
}

// Subnet is a subnet of a VPC.
type Subnet struct {
	ID   string
	VPC  string
	Zone string
	// ZoneID is the ID of the zone, which is the same in every account.
	ZoneID string
	CIDR   string
	// Outpost is the ARN of its Outpost, if any.
	Outpost string
	Tags    map[string]string
}

// RouteTable is a route table of a VPC.
type RouteTable struct {
	ID  string
	VPC string
	// Main makes it the table of subnets without a table of their own.
	Main    bool
	Subnets []string
	// Gateways are the targets of its routes, such as igw-1 or nat-1.
	Gateways []string
	// Blackhole sets the state of the routes to blackhole, as if their gateway were
	// deleted.
	Blackhole bool
}

// AddVPC adds a VPC with its subnets and route tables, and sets their VPC field.
func (s *Server) AddVPC(vpc VPC, subnets []Subnet, tables []RouteTable) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.vpcs = append(s.vpcs, vpc)
	for _, subnet := range subnets {
		subnet.VPC = vpc.ID
		s.subnets = append(s.subnets, subnet)
	}
	for _, table := range tables {
		table.VPC = vpc.ID
		s.tables = append(s.tables, table)
	}
}

// PageSize sets the number of items in each page of a list. Zero means no pages.
func (s *Server) PageSize(items int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pageSize = items
}

// Shuffle reverses the order of lists, which AWS does not guarantee.
func (s *Server) Shuffle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Reverse(s.subnets)
	slices.Reverse(s.tables)
}

// The names in responses of EC2 are in lower camel case.
type (
	ec2Tag struct {
		Key   string `xml:"key"`
		Value string `xml:"value"`
	}
	ec2VPC struct {
		ID   string `xml:"vpcId"`
		CIDR string `xml:"cidrBlock"`
	}
	ec2Subnet struct {
		ID      string   `xml:"subnetId"`
		VPC     string   `xml:"vpcId"`
		Zone    string   `xml:"availabilityZone"`
		ZoneID  string   `xml:"availabilityZoneId,omitempty"`
		CIDR    string   `xml:"cidrBlock"`
		Outpost string   `xml:"outpostArn,omitempty"`
		Tags    []ec2Tag `xml:"tagSet>item"`
	}
	ec2Route struct {
		Destination string `xml:"destinationCidrBlock"`
		Gateway     string `xml:"gatewayId,omitempty"`
		NAT         string `xml:"natGatewayId,omitempty"`
		State       string `xml:"state"`
	}
	ec2Association struct {
		Main   bool   `xml:"main"`
		Subnet string `xml:"subnetId,omitempty"`
		State  string `xml:"associationState>state"`
	}
	ec2RouteTable struct {
		ID           string           `xml:"routeTableId"`
		VPC          string           `xml:"vpcId"`
		Routes       []ec2Route       `xml:"routeSet>item"`
		Associations []ec2Association `xml:"associationSet>item"`
	}
)

func (s *Server) describeVPCs(c call) (any, error) {
	vpcs, next, err := list(s, c.form, s.vpcs, func(vpc VPC) map[string]string { return map[string]string{"vpc-id": vpc.ID} })
	if err != nil {
		return nil, err
	}
	response := struct {
		XMLName   xml.Name `xml:"DescribeVpcsResponse"`
		RequestID string   `xml:"requestId"`
		Items     []ec2VPC `xml:"vpcSet>item"`
		Next      string   `xml:"nextToken,omitempty"`
	}{RequestID: requestID, Next: next}
	for _, vpc := range vpcs {
		response.Items = append(response.Items, ec2VPC(vpc))
	}
	return response, nil
}

func (s *Server) describeSubnets(c call) (any, error) {
	subnets, next, err := list(s, c.form, s.subnets, func(subnet Subnet) map[string]string {
		fields := map[string]string{"vpc-id": subnet.VPC, "subnet-id": subnet.ID}
		for key, value := range subnet.Tags {
			fields["tag:"+key] = value
		}
		return fields
	})
	if err != nil {
		return nil, err
	}
	response := struct {
		XMLName   xml.Name    `xml:"DescribeSubnetsResponse"`
		RequestID string      `xml:"requestId"`
		Items     []ec2Subnet `xml:"subnetSet>item"`
		Next      string      `xml:"nextToken,omitempty"`
	}{RequestID: requestID, Next: next}
	for _, subnet := range subnets {
		item := ec2Subnet{ID: subnet.ID, VPC: subnet.VPC, Zone: subnet.Zone, ZoneID: subnet.ZoneID, CIDR: subnet.CIDR, Outpost: subnet.Outpost}
		for _, key := range slices.Sorted(maps.Keys(subnet.Tags)) {
			item.Tags = append(item.Tags, ec2Tag{key, subnet.Tags[key]})
		}
		response.Items = append(response.Items, item)
	}
	return response, nil
}

func (s *Server) describeRouteTables(c call) (any, error) {
	tables, next, err := list(s, c.form, s.tables, func(table RouteTable) map[string]string { return map[string]string{"vpc-id": table.VPC} })
	if err != nil {
		return nil, err
	}
	response := struct {
		XMLName   xml.Name        `xml:"DescribeRouteTablesResponse"`
		RequestID string          `xml:"requestId"`
		Items     []ec2RouteTable `xml:"routeTableSet>item"`
		Next      string          `xml:"nextToken,omitempty"`
	}{RequestID: requestID, Next: next}
	for _, table := range tables {
		response.Items = append(response.Items, table.item())
	}
	return response, nil
}

func (t RouteTable) item() ec2RouteTable {
	item := ec2RouteTable{ID: t.ID, VPC: t.VPC, Routes: []ec2Route{{Destination: "10.0.0.0/16", Gateway: "local", State: "active"}}}
	state := "active"
	if t.Blackhole {
		state = "blackhole"
	}
	for _, gateway := range t.Gateways {
		route := ec2Route{Destination: "0.0.0.0/0", State: state, Gateway: gateway}
		if strings.HasPrefix(gateway, "nat-") {
			route.Gateway, route.NAT = "", gateway
		}
		item.Routes = append(item.Routes, route)
	}
	if t.Main {
		item.Associations = append(item.Associations, ec2Association{Main: true, State: "associated"})
	}
	for _, subnet := range t.Subnets {
		item.Associations = append(item.Associations, ec2Association{Subnet: subnet, State: "associated"})
	}
	return item
}

// list returns the requested page of the items that match every filter of a request,
// and the token of the next page.
func list[T any](s *Server, form url.Values, items []T, fields func(T) map[string]string) (page []T, next string, err error) {
	matched, err := filter(form, items, fields)
	if err != nil {
		return nil, "", err
	}
	bounds, next, err := s.page(form, len(matched))
	if err != nil {
		return nil, "", err
	}
	return matched[bounds.from:bounds.to], next, nil
}

// filter returns the items that match every filter of a request. It rejects unknown
// filters, so that no test passes because of a filter without effect.
func filter[T any](form url.Values, items []T, fields func(T) map[string]string) ([]T, error) {
	kept := slices.Clone(items)
	for i := 1; ; i++ {
		prefix := fmt.Sprintf("Filter.%d.", i)
		name := form.Get(prefix + "Name")
		if name == "" {
			return kept, nil
		}
		if !slices.Contains([]string{"vpc-id", "subnet-id"}, name) && !strings.HasPrefix(name, "tag:") {
			return nil, refuse(http.StatusBadRequest, "InvalidParameterValue", "The filter '%s' is invalid", name)
		}
		var values []string
		for j := 1; form.Has(fmt.Sprintf("%sValue.%d", prefix, j)); j++ {
			values = append(values, form.Get(fmt.Sprintf("%sValue.%d", prefix, j)))
		}
		kept = slices.DeleteFunc(kept, func(item T) bool {
			value, has := fields(item)[name]
			return !has || !slices.Contains(values, value)
		})
	}
}

type span struct{ from, to int }

// page returns the bounds of the requested page of a list, and the token of the next
// page.
func (s *Server) page(form url.Values, count int) (span, string, error) {
	size := s.pageSize
	if text := form.Get("MaxResults"); text != "" {
		requested, err := strconv.Atoi(text)
		if err != nil || requested < 5 || requested > 1000 {
			return span{}, "", refuse(http.StatusBadRequest, "InvalidParameterValue", "MaxResults must be between 5 and 1000")
		}
		size = requested
	}
	from := 0
	if token := form.Get("NextToken"); token != "" {
		var err error
		if from, err = strconv.Atoi(strings.TrimPrefix(token, "page-")); err != nil || from < 0 || from > count {
			return span{}, "", refuse(http.StatusBadRequest, "InvalidNextToken", "The token is invalid.")
		}
	}
	if size <= 0 || from+size >= count {
		return span{from, count}, "", nil
	}
	return span{from, from + size}, fmt.Sprintf("page-%d", from+size), nil
}
