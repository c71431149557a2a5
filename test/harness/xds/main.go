// Command xds asks istiod what a proxy would be told, without a proxy: it opens an aggregated discovery stream under the
// proxy's name, subscribes to each type in turn and prints what came as one JSON object, keyed as the types were given.
//
//	xds -istiod 127.0.0.1:15010 -node 'waypoint~IP~POD.NS~NS.svc.cluster.local' -metadata '{…}' LDS RDS=NAME,NAME …
//
// A type is LDS, CDS, RDS, EDS or a full type URL; names after "=" are needed for RDS and EDS.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	// Listeners, routes and workloads hold messages as google.protobuf.Any; they print only if their types are linked in.
	_ "github.com/cncf/xds/go/udpa/type/v1"
	_ "github.com/cncf/xds/go/xds/type/v3"
	_ "istio.io/api/envoy/extensions/stats"
	_ "istio.io/istio/pkg/config/xds"
	_ "istio.io/istio/pkg/workloadapi"
	_ "istio.io/istio/pkg/workloadapi/security"
)

const prefix = "type.googleapis.com/envoy.config."

var typeURLs = map[string]string{
	"LDS": prefix + "listener.v3.Listener",
	"CDS": prefix + "cluster.v3.Cluster",
	"RDS": prefix + "route.v3.RouteConfiguration",
	"EDS": prefix + "endpoint.v3.ClusterLoadAssignment",
}

// What istiod may send for one proxy of a large mesh is more than gRPC's default of 4 MiB.
const largestMessage = 256 << 20

type subscriber struct {
	stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient
	node   *corev3.Node
}

// ask subscribes to one type and returns the first answer of that type. istiod may push others meanwhile.
func (s subscriber) ask(url string, names []string) ([]*anypb.Any, error) {
	request := &discoveryv3.DiscoveryRequest{Node: s.node, TypeUrl: url, ResourceNames: names}
	if err := s.stream.Send(request); err != nil {
		return nil, err
	}
	for {
		answer, err := s.stream.Recv()
		if err != nil {
			return nil, err
		}
		if answer.TypeUrl != url {
			continue
		}
		request.VersionInfo, request.ResponseNonce = answer.VersionInfo, answer.Nonce
		return answer.Resources, s.stream.Send(request) // the acknowledgement
	}
}

func render(resource *anypb.Any) json.RawMessage {
	text, err := protojson.Marshal(resource)
	if err != nil {
		text, _ = json.Marshal(map[string]string{"@type": resource.TypeUrl, "unreadable": err.Error()})
	}
	return text
}

func main() {
	address := flag.String("istiod", "127.0.0.1:15010", "istiod's plaintext gRPC address")
	id := flag.String("node", "", "the proxy's node id")
	metadata := flag.String("metadata", "{}", "the proxy's node metadata, as JSON")
	patience := flag.Duration("timeout", 10*time.Second, "how long to wait for everything")
	flag.Parse()
	if err := discover(*address, *id, *metadata, *patience, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func discover(address, id, metadata string, patience time.Duration, types []string) error {
	fields := &structpb.Struct{}
	if err := protojson.Unmarshal([]byte(metadata), fields); err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(largestMessage)))
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return err
	}
	s := subscriber{stream, &corev3.Node{Id: id, Metadata: fields}}
	printed := map[string][]json.RawMessage{}
	for _, each := range types {
		short, list, _ := strings.Cut(each, "=")
		url, known := typeURLs[short]
		if !known {
			url = short
		}
		var names []string
		if list != "" {
			names = strings.Split(list, ",")
		}
		resources, err := s.ask(url, names)
		if err != nil {
			return fmt.Errorf("%s: %w", each, err)
		}
		printed[each] = []json.RawMessage{}
		for _, resource := range resources {
			printed[each] = append(printed[each], render(resource))
		}
	}
	return json.NewEncoder(os.Stdout).Encode(printed)
}
