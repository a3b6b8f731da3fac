package vcenter

import (
	"bytes"
	"net/http"
	"net/http/httptest"

	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vim25/xml"
)

// asPart has vcsim run a request of the same client and session as a part of a task of the front's, and waits for its end.
func (f *front) asPart(r *http.Request, c *call, body any) outcome {
	part := *c
	part.body = encoded(body)
	out := httptest.NewRecorder()
	f.authors.during(c.this, author{part: true}, func() { f.forward(out, r, &part) })
	if out.Code != http.StatusOK {
		return faultOf(out, c.this)
	}
	return await(f.service, taskOf(out))
}

// encoded is a request as a client would send it.
func encoded(body any) []byte {
	var text bytes.Buffer
	if err := xml.NewEncoder(&text).Encode(soap.Envelope{Body: body}); err != nil {
		panic(err) // vSphere's types are made to be encoded
	}
	return text.Bytes()
}

// faultOf is the end of a task whose part vcsim has refused.
func faultOf(out *httptest.ResponseRecorder, entity reference) outcome {
	var answer struct {
		Body struct {
			Fault *soap.Fault `xml:"http://schemas.xmlsoap.org/soap/envelope/ Fault"`
		} `xml:"Body"`
	}
	decoder := xml.NewDecoder(out.Body)
	decoder.TypeFunc = typeOf
	if err := decoder.Decode(&answer); err == nil && answer.Body.Fault != nil {
		if fault, ok := answer.Body.Fault.VimFault().(types.BaseMethodFault); ok {
			return failure(fault)
		}
	}
	return failure(&types.ManagedObjectNotFound{Obj: entity})
}
