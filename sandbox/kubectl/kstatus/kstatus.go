// Package kstatus says what GitOps tools take an object for: Flux and others wait by the rules of cli-utils' kstatus.
package kstatus

import (
	"encoding/json"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

// Print reads objects as JSON, one after the other, and prints a line of each: its status by kstatus, and the message.
func Print(in io.Reader, out io.Writer) error {
	for decoder := json.NewDecoder(in); ; {
		var text json.RawMessage
		if err := decoder.Decode(&text); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		var object unstructured.Unstructured
		if err := object.UnmarshalJSON(text); err != nil {
			return err
		}
		result, err := status.Compute(&object)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s %s\n", result.Status, result.Message)
	}
}
