package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math/big"
	"net/url"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
)

// Where a log says that it is: its name in checkpoints.
const (
	firstLog  = "rekor.example.com"
	secondLog = "log2026.rekor.example.com"
)

// instance is all that a Sigstore consists of: authorities of certificates and of timestamps, a log of certificates, and
// transparency logs of both versions of Rekor.
type instance struct {
	certificates, timestamps authority
	ctlog, rekor             *ecdsa.PrivateKey
	tiles                    ed25519.PrivateKey
	tilesID                  []byte
	// begun is when all of it became valid.
	begun time.Time
}

// authority is a root and what it has certified.
type authority struct {
	root, certified *x509.Certificate
	key             *ecdsa.PrivateKey
}

func newInstance() (*instance, error) {
	begun := time.Now().Add(-365 * 24 * time.Hour).Truncate(time.Second)
	made := &instance{begun: begun}
	var err error
	issues := &x509.Certificate{
		Subject: pkix.Name{CommonName: "intermediate", Organization: []string{"example.com"}}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
	}
	if made.certificates, err = newAuthority(begun, issues); err != nil {
		return nil, err
	}
	purpose, err := asn1.Marshal([]asn1.ObjectIdentifier{{1, 3, 6, 1, 5, 5, 7, 3, 8}})
	if err != nil {
		return nil, err
	}
	stamps := &x509.Certificate{
		Subject: pkix.Name{CommonName: "timestamps", Organization: []string{"example.com"}}, KeyUsage: x509.KeyUsageDigitalSignature,
		// RFC 3161 wants just this purpose, and it to be critical.
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 37}, Critical: true, Value: purpose}},
	}
	if made.timestamps, err = newAuthority(begun, stamps); err != nil {
		return nil, err
	}
	if made.ctlog, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	if made.rekor, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	public, tiles, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	// The key ID of signed notes.
	id := sha256.Sum256(append([]byte(secondLog+"\n\x01"), public...))
	made.tiles, made.tilesID = tiles, id[:]
	return made, nil
}

func newAuthority(begun time.Time, certified *x509.Certificate) (authority, error) {
	top := &x509.Certificate{
		Subject: pkix.Name{CommonName: "root", Organization: []string{"example.com"}}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	keys := make([]*ecdsa.PrivateKey, 2)
	for index, template := range []*x509.Certificate{top, certified} {
		key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
		if err != nil {
			return authority{}, err
		}
		keys[index] = key
		template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(int64(index+1)), begun, begun.Add(10*365*24*time.Hour)
	}
	topCertificate, err := certify(top, top, &keys[0].PublicKey, keys[0])
	if err != nil {
		return authority{}, err
	}
	certificate, err := certify(certified, topCertificate, &keys[1].PublicKey, keys[0])
	return authority{root: topCertificate, certified: certificate, key: keys[1]}, err
}

func certify(template, parent *x509.Certificate, key any, by crypto.Signer) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, by)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// identify returns a certificate of who signs, if not of nobody, valid for ten minutes, with the SCT of a log if one is given.
func (own *instance) identify(subject, issuer string, from time.Time, key any, log *ecdsa.PrivateKey) (*x509.Certificate, error) {
	issuerValue, err := asn1.MarshalWithParams(issuer, "utf8")
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(from.UnixNano()), NotBefore: from, NotAfter: from.Add(10 * time.Minute),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
	}
	if issuer != "" {
		template.ExtraExtensions = []pkix.Extension{
			{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 1}, Value: []byte(issuer)},
			{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 8}, Value: issuerValue},
		}
	}
	if uri, err := url.Parse(subject); err == nil && uri.Scheme != "" {
		template.URIs = []*url.URL{uri}
	} else if subject != "" {
		template.EmailAddresses = []string{subject}
	}
	above := own.certificates
	without, err := certify(template, above.certified, key, above.key)
	if err != nil || log == nil {
		return without, err
	}
	list, err := certificateTimestamps(log, above.certified, without)
	if err != nil {
		return nil, err
	}
	template.ExtraExtensions = append(template.ExtraExtensions, pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11129, 2, 4, 2}, Value: list})
	return certify(template, above.certified, key, above.key)
}

// certificateTimestamps returns the extension with the SCT of a log, by RFC 6962: it signs the certificate without it.
func certificateTimestamps(log *ecdsa.PrivateKey, issuer, without *x509.Certificate) ([]byte, error) {
	id, err := keyID(&log.PublicKey)
	if err != nil {
		return nil, err
	}
	issuerKey := sha256.Sum256(issuer.RawSubjectPublicKeyInfo)
	length := len(without.RawTBSCertificate)
	moment := binary.BigEndian.AppendUint64(nil, uint64(without.NotBefore.UnixMilli()))
	// Version, type of signature; type of entry; no extensions.
	signed := append([]byte{0, 0}, moment...)
	signed = append(append(signed, 0, 1), issuerKey[:]...)
	signed = append(append(signed, byte(length>>16), byte(length>>8), byte(length)), without.RawTBSCertificate...)
	signature, err := sign(log, append(signed, 0, 0))
	if err != nil {
		return nil, err
	}
	sct := append(append([]byte{0}, id...), moment...)
	// No extensions; SHA-256 and ECDSA.
	sct = binary.BigEndian.AppendUint16(append(sct, 0, 0, 4, 3), uint16(len(signature)))
	sct = append(sct, signature...)
	list := binary.BigEndian.AppendUint16(nil, uint16(len(sct)+2))
	return asn1.Marshal(append(binary.BigEndian.AppendUint16(list, uint16(len(sct))), sct...))
}

// sign returns an ECDSA signature of a message's SHA-256.
func sign(key *ecdsa.PrivateKey, message []byte) ([]byte, error) {
	digest := sha256.Sum256(message)
	return ecdsa.SignASN1(rand.Reader, key, digest[:])
}

// keyID returns what logs are named by.
func keyID(key crypto.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	digest := sha256.Sum256(der)
	return digest[:], err
}

// trustedRoot returns what verifiers have to know.
func (own *instance) trustedRoot() (json.RawMessage, error) {
	logs := func(url string, id []byte, key crypto.PublicKey) map[string]*root.TransparencyLog {
		return map[string]*root.TransparencyLog{hex.EncodeToString(id): {
			BaseURL: url, ID: id, ValidityPeriodStart: own.begun, HashFunc: crypto.SHA256, PublicKey: key, SignatureHashFunc: crypto.SHA256,
		}}
	}
	ctlogID, err := keyID(&own.ctlog.PublicKey)
	if err != nil {
		return nil, err
	}
	rekorID, err := keyID(&own.rekor.PublicKey)
	if err != nil {
		return nil, err
	}
	rekor := logs("https://"+firstLog, rekorID, &own.rekor.PublicKey)
	for id, log := range logs("https://"+secondLog, own.tilesID, own.tiles.Public()) {
		rekor[id] = log
	}
	certificates := &root.FulcioCertificateAuthority{
		Root: own.certificates.root, Intermediates: []*x509.Certificate{own.certificates.certified},
		ValidityPeriodStart: own.begun, URI: "https://fulcio.example.com",
	}
	timestamps := &root.SigstoreTimestampingAuthority{
		Root: own.timestamps.root, Leaf: own.timestamps.certified, ValidityPeriodStart: own.begun, URI: "https://timestamp.example.com",
	}
	trusted, err := root.NewTrustedRoot(root.TrustedRootMediaType01, []root.CertificateAuthority{certificates},
		logs("https://ctlog.example.com", ctlogID, &own.ctlog.PublicKey), []root.TimestampingAuthority{timestamps}, rekor)
	if err != nil {
		return nil, err
	}
	return trusted.MarshalJSON()
}
