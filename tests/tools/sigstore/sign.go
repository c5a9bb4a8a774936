package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	"github.com/digitorus/timestamp"
	"github.com/transparency-dev/merkle/rfc6962"
)

// Annotations of cosign.
const (
	signatureAnnotation   = "dev.cosignproject.cosign/signature"
	certificateAnnotation = "dev.sigstore.cosign/certificate"
	chainAnnotation       = "dev.sigstore.cosign/chain"
	bundleAnnotation      = "dev.sigstore.cosign/bundle"
	timestampAnnotation   = "dev.sigstore.cosign/rfc3161timestamp"
)

const statementType = "application/vnd.in-toto+json"

// signing is what to sign, and how.
type signing struct {
	// Instance names the Sigstore; it is made when it is first named.
	Instance string `json:"instance"`
	// Form is annotations (of cosign 2), or the bundle of cosign 3 with an entry in version 1 or 2 of Rekor: bundle, tiles.
	Form    string `json:"form"`
	Subject string `json:"subject"`
	Issuer  string `json:"issuer"`
	// Payload is the text that is signed; in a bundle it is a statement.
	Payload string `json:"payload"`
	// Without says what to leave out: sct, entry, promise, proof, timestamp.
	Without []string `json:"without"`
	// Other says what is of another instance, which is forgotten: sct, entry, timestamp, certificate.
	Other []string `json:"other"`
	// Late is whether the signature is logged and stamped when the certificate has expired.
	Late bool `json:"late"`
}

// signed is what there is of a signature before it is written in one of the forms.
type signed struct {
	signature, stamp []byte
	certificate      *x509.Certificate
	entry            map[string]any
	promise          map[string]any
}

type object = map[string]any

func (asked *signing) run(instances map[string]*instance) (answer, error) {
	own, known := instances[asked.Instance]
	other, err := newInstance()
	if err != nil {
		return answer{}, err
	}
	if !known {
		if own, err = newInstance(); err != nil {
			return answer{}, err
		}
		instances[asked.Instance] = own
	}
	trusted, err := own.trustedRoot()
	if err != nil {
		return answer{}, err
	}
	made, err := asked.sign(func(what string) *instance {
		if slices.Contains(asked.Other, what) {
			return other
		}
		return own
	})
	if err != nil {
		return answer{}, err
	}
	told := answer{Root: trusted}
	if asked.Form == "annotations" {
		told.Annotations, err = asked.annotate(made, own)
	} else {
		told.Bundle, err = asked.bundle(made)
	}
	return told, err
}

func (asked *signing) lacks(what string) bool { return slices.Contains(asked.Without, what) }

func (asked *signing) sign(of func(string) *instance) (*signed, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	from := time.Now().Add(-time.Hour).Truncate(time.Second)
	var log *ecdsa.PrivateKey
	if !asked.lacks("sct") {
		log = of("sct").ctlog
	}
	certificate, err := of("certificate").identify(asked.Subject, asked.Issuer, from, &key.PublicKey, log)
	if err != nil {
		return nil, err
	}
	message := []byte(asked.Payload)
	if asked.Form != "annotations" {
		message = fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(statementType), statementType, len(message), message)
	}
	signature, err := sign(key, message)
	if err != nil {
		return nil, err
	}
	moment := from.Add(5 * time.Second)
	if asked.Late {
		moment = from.Add(20 * time.Minute)
	}
	made := &signed{signature: signature, certificate: certificate}
	if !asked.lacks("timestamp") {
		if made.stamp, err = of("timestamp").stamp(signature, moment); err != nil {
			return nil, err
		}
	}
	body, err := asked.body(message, signature, certificate)
	if err != nil {
		return nil, err
	}
	if asked.Form == "tiles" {
		made.entry = of("entry").entryOfTiles(body)
		return made, nil
	}
	made.entry, made.promise, err = of("entry").entryOfRekor(body, moment)
	return made, err
}

// stamp returns a response of the timestamp authority.
func (own *instance) stamp(signature []byte, moment time.Time) ([]byte, error) {
	digest := sha256.Sum256(signature)
	token := timestamp.Timestamp{
		HashAlgorithm: crypto.SHA256, HashedMessage: digest[:], Time: moment, Policy: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 2},
	}
	return token.CreateResponseWithOpts(own.timestamps.certified, own.timestamps.key, crypto.SHA384)
}

// body returns what is logged of a signature, in the canonical form of Rekor.
func (asked *signing) body(message, signature []byte, certificate *x509.Certificate) ([]byte, error) {
	verifier := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
	digest, payload := sha256.Sum256(message), sha256.Sum256([]byte(asked.Payload))
	hash := func(digest [32]byte) object {
		return object{"algorithm": "sha256", "value": hex.EncodeToString(digest[:])}
	}
	kind, version, spec := "hashedrekord", "0.0.1", object{}
	switch asked.Form {
	case "annotations":
		spec = object{"data": object{"hash": hash(digest)}, "signature": object{"content": signature, "publicKey": object{"content": verifier}}}
	case "tiles":
		version = "0.0.2"
		verifier := object{"keyDetails": "PKIX_ECDSA_P256_SHA_256", "x509Certificate": object{"rawBytes": certificate.Raw}}
		spec = object{"hashedRekordV002": object{
			"data": object{"algorithm": "SHA2_256", "digest": digest[:]}, "signature": object{"content": signature, "verifier": verifier},
		}}
	default:
		kind = "dsse"
		spec = object{
			"envelopeHash": hash(digest), "payloadHash": hash(payload),
			"signatures": []object{{"signature": base64.StdEncoding.EncodeToString(signature), "verifier": verifier}},
		}
	}
	return json.Marshal(object{"apiVersion": version, "kind": kind, "spec": spec})
}

// entryOfRekor returns an entry of version 1 of Rekor, and the promise that cosign 2 keeps of it.
func (own *instance) entryOfRekor(body []byte, moment time.Time) (entry, promise object, err error) {
	id, err := keyID(&own.rekor.PublicKey)
	if err != nil {
		return nil, nil, err
	}
	promised := object{"body": body, "integratedTime": moment.Unix(), "logIndex": 1001, "logID": hex.EncodeToString(id)}
	text, err := json.Marshal(promised)
	if err != nil {
		return nil, nil, err
	}
	promiseSignature, err := sign(own.rekor, text)
	if err != nil {
		return nil, nil, err
	}
	proof, top := include(body)
	checkpoint := fmt.Sprintf("%s - 1234567890\n3\n%s\n", firstLog, base64.StdEncoding.EncodeToString(top))
	noted, err := sign(own.rekor, []byte(checkpoint))
	if err != nil {
		return nil, nil, err
	}
	proof["checkpoint"] = object{"envelope": note(checkpoint, firstLog, id, noted)}
	entry = object{
		"logIndex": "1001", "logId": object{"keyId": id}, "integratedTime": fmt.Sprint(moment.Unix()), "canonicalizedBody": body,
		"inclusionPromise": object{"signedEntryTimestamp": promiseSignature}, "inclusionProof": proof,
	}
	return entry, object{"SignedEntryTimestamp": promiseSignature, "Payload": promised}, nil
}

// entryOfTiles returns an entry of version 2 of Rekor, which promises nothing and knows no time.
func (own *instance) entryOfTiles(body []byte) object {
	proof, top := include(body)
	checkpoint := fmt.Sprintf("%s\n3\n%s\n", secondLog, base64.StdEncoding.EncodeToString(top))
	noted := ed25519.Sign(own.tiles, []byte(checkpoint))
	proof["checkpoint"] = object{"envelope": note(checkpoint, secondLog, own.tilesID, noted)}
	return object{"logIndex": "1", "logId": object{"keyId": own.tilesID}, "canonicalizedBody": body, "inclusionProof": proof}
}

// include returns the proof that a body is the second of three leaves of a tree, and the tree's root.
func include(body []byte) (proof object, top []byte) {
	hasher := rfc6962.DefaultHasher
	first, last := hasher.HashLeaf([]byte("first")), hasher.HashLeaf([]byte("last"))
	top = hasher.HashChildren(hasher.HashChildren(first, hasher.HashLeaf(body)), last)
	return object{"logIndex": "1", "treeSize": "3", "rootHash": top, "hashes": [][]byte{first, last}}, top
}

// note adds a signature to a checkpoint.
func note(checkpoint, name string, id, signature []byte) string {
	return fmt.Sprintf("%s\n\u2014 %s %s\n", checkpoint, name, base64.StdEncoding.EncodeToString(append(id[:4:4], signature...)))
}

// annotate returns a signature as cosign 2 keeps it.
func (asked *signing) annotate(made *signed, own *instance) (map[string]string, error) {
	encode := func(certificates ...*x509.Certificate) string {
		var text []byte
		for _, certificate := range certificates {
			text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})...)
		}
		return string(text)
	}
	annotations := map[string]string{
		signatureAnnotation:   base64.StdEncoding.EncodeToString(made.signature),
		certificateAnnotation: encode(made.certificate),
		chainAnnotation:       encode(own.certificates.certified, own.certificates.root),
	}
	if !asked.lacks("entry") {
		promise, err := json.Marshal(made.promise)
		if err != nil {
			return nil, err
		}
		annotations[bundleAnnotation] = string(promise)
	}
	if made.stamp != nil {
		stamp, err := json.Marshal(object{"SignedRFC3161Timestamp": made.stamp})
		if err != nil {
			return nil, err
		}
		annotations[timestampAnnotation] = string(stamp)
	}
	return annotations, nil
}

// bundle returns a signature as cosign 3 keeps it.
func (asked *signing) bundle(made *signed) (json.RawMessage, error) {
	made.entry["kindVersion"] = object{"kind": "dsse", "version": "0.0.1"}
	if asked.Form == "tiles" {
		made.entry["kindVersion"] = object{"kind": "hashedrekord", "version": "0.0.2"}
	}
	if asked.lacks("promise") {
		delete(made.entry, "inclusionPromise")
	}
	if asked.lacks("proof") {
		delete(made.entry, "inclusionProof")
	}
	material := object{"certificate": object{"rawBytes": made.certificate.Raw}, "tlogEntries": []object{made.entry}}
	if asked.lacks("entry") {
		material["tlogEntries"] = []object{}
	}
	if made.stamp != nil {
		material["timestampVerificationData"] = object{"rfc3161Timestamps": []object{{"signedTimestamp": made.stamp}}}
	}
	return json.Marshal(object{
		"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json", "verificationMaterial": material,
		"dsseEnvelope": object{
			"payload": []byte(asked.Payload), "payloadType": statementType, "signatures": []object{{"sig": made.signature}},
		},
	})
}
