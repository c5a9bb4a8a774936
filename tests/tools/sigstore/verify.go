package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
)

// verification is a signature, and what it has to be.
type verification struct {
	Root json.RawMessage `json:"root"`
	// Digest is that of the manifest: sha256:…
	Digest        string `json:"digest"`
	Subject       string `json:"subject"`
	SubjectRegexp string `json:"subject_regexp"`
	Issuer        string `json:"issuer"`
	IssuerRegexp  string `json:"issuer_regexp"`
	// Payload and Annotations are of cosign 2, Bundle of cosign 3.
	Payload     string            `json:"payload"`
	Annotations map[string]string `json:"annotations"`
	Bundle      json.RawMessage   `json:"bundle"`
}

func (asked *verification) run() error {
	trusted, err := root.NewTrustedRootFromJSON(asked.Root)
	if err != nil {
		return err
	}
	verifier, err := verify.NewVerifier(trusted, verify.WithSignedCertificateTimestamps(1), verify.WithTransparencyLog(1), verify.WithObserverTimestamps(1))
	if err != nil {
		return err
	}
	identity, err := verify.NewShortCertificateIdentity(asked.Issuer, asked.IssuerRegexp, asked.Subject, asked.SubjectRegexp)
	if err != nil {
		return err
	}
	if asked.Annotations != nil {
		return asked.annotated(verifier, identity)
	}
	var entity bundle.Bundle
	if err := entity.UnmarshalJSON(asked.Bundle); err != nil {
		return err
	}
	digest, err := hex.DecodeString(strings.TrimPrefix(asked.Digest, "sha256:"))
	if err != nil {
		return err
	}
	result, err := verifier.Verify(&entity, verify.NewPolicy(verify.WithArtifactDigest("sha256", digest), verify.WithCertificateIdentity(identity)))
	if err != nil {
		return err
	}
	if result.Statement == nil || result.Statement.GetPredicateType() != "https://sigstore.dev/cosign/sign/v1" {
		return errors.New("is no statement of cosign sign")
	}
	return nil
}

// annotated verifies a signature of cosign 2: as a bundle, with what is promised in place of what is proved.
func (asked *verification) annotated(verifier *verify.Verifier, identity verify.CertificateIdentity) error {
	var payload struct {
		Critical struct {
			Image struct {
				Digest string `json:"docker-manifest-digest"`
			} `json:"image"`
			Type string `json:"type"`
		} `json:"critical"`
	}
	if err := json.Unmarshal([]byte(asked.Payload), &payload); err != nil {
		return err
	}
	if payload.Critical.Image.Digest != asked.Digest || payload.Critical.Type != "cosign container image signature" {
		return errors.New("is a payload of something else")
	}
	text, err := asked.converted()
	if err != nil {
		return err
	}
	var entity bundle.Bundle
	if err := entity.UnmarshalJSON(text); err != nil {
		return err
	}
	policy := verify.NewPolicy(verify.WithArtifact(strings.NewReader(asked.Payload)), verify.WithCertificateIdentity(identity))
	_, err = verifier.Verify(&entity, policy)
	return err
}

// converted returns the bundle of version 0.1 that annotations stand for.
func (asked *verification) converted() ([]byte, error) {
	var certificates []object
	for rest := []byte(asked.Annotations[certificateAnnotation] + asked.Annotations[chainAnnotation]); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		certificates = append(certificates, object{"rawBytes": block.Bytes})
	}
	var promise struct {
		SignedEntryTimestamp []byte
		Payload              struct {
			Body           []byte `json:"body"`
			IntegratedTime int64  `json:"integratedTime"`
			LogIndex       int64  `json:"logIndex"`
			LogID          string `json:"logID"`
		}
	}
	if err := json.Unmarshal([]byte(asked.Annotations[bundleAnnotation]), &promise); err != nil {
		return nil, fmt.Errorf("the promise: %w", err)
	}
	id, err := hex.DecodeString(promise.Payload.LogID)
	if err != nil {
		return nil, err
	}
	var body struct {
		Kind    string `json:"kind"`
		Version string `json:"apiVersion"`
	}
	if err := json.NewDecoder(bytes.NewReader(promise.Payload.Body)).Decode(&body); err != nil {
		return nil, err
	}
	signature, err := base64.StdEncoding.DecodeString(asked.Annotations[signatureAnnotation])
	if err != nil {
		return nil, err
	}
	material := object{
		"x509CertificateChain": object{"certificates": certificates},
		"tlogEntries": []object{{
			"logIndex": fmt.Sprint(promise.Payload.LogIndex), "logId": object{"keyId": id}, "canonicalizedBody": promise.Payload.Body,
			"kindVersion": object{"kind": body.Kind, "version": body.Version}, "integratedTime": fmt.Sprint(promise.Payload.IntegratedTime),
			"inclusionPromise": object{"signedEntryTimestamp": promise.SignedEntryTimestamp},
		}},
	}
	if text, has := asked.Annotations[timestampAnnotation]; has {
		var stamp struct{ SignedRFC3161Timestamp []byte }
		if err := json.Unmarshal([]byte(text), &stamp); err != nil {
			return nil, err
		}
		material["timestampVerificationData"] = object{"rfc3161Timestamps": []object{{"signedTimestamp": stamp.SignedRFC3161Timestamp}}}
	}
	digest := sha256.Sum256([]byte(asked.Payload))
	return json.Marshal(object{
		"mediaType": "application/vnd.dev.sigstore.bundle+json;version=0.1", "verificationMaterial": material,
		"messageSignature": object{"messageDigest": object{"algorithm": "SHA2_256", "digest": digest[:]}, "signature": signature},
	})
}
