package broker

import (
	"crypto/x509"
	"fmt"
	"strings"

	"github.com/hostler-io/hostler/protocol"
)

// bulkSuffix marks the second connection of a host in its client id.
const bulkSuffix = "~bulk"

// nameOf returns whom a certificate speaks for.
func nameOf(cert *x509.Certificate) (protocol.SAN, error) {
	uris := make([]string, len(cert.URIs))
	for i, u := range cert.URIs {
		uris[i] = u.String()
	}
	return protocol.ParseSANs(uris)
}

// checkClientID says whether name may present itself with the MQTT client id, and
// whether that is a host's bulk connection. Only hosts are bound to an id: what a
// viewer calls itself means nothing here, because connections are told apart by
// certificate first.
func checkClientID(name protocol.SAN, clientID string) (bulk bool, err error) {
	switch name.Kind {
	case protocol.SANHost:
		id, bulk := strings.CutSuffix(clientID, bulkSuffix)
		if id != name.ID {
			return false, fmt.Errorf("client id %.100q does not belong to %v", clientID, name)
		}
		return bulk, nil
	case protocol.SANViewer, protocol.SANCoordinator:
		return false, nil
	}
	return false, fmt.Errorf("%v has no business with a broker", name)
}
