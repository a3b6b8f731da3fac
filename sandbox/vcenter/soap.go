package vcenter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vim25/xml"
)

// call is what the front needs to know of a SOAP request: the method, the object it is for, who asks, and what the rules
// do to it.
type call struct {
	method string
	this   types.ManagedObjectReference
	client string
	user   string
	body   []byte
	header http.Header
	effect effect
	tell   time.Duration // what its task does is told so much after the task's end
	hold   *hold         // what is not told until then
}

// request is what the call asks for, as govmomi's type has it; nil if it can't be read, of which vcsim says what is wrong.
func (c *call) request() any {
	method, err := simulator.UnmarshalBody(typeOf, c.body)
	if err != nil {
		return nil
	}
	return method.Body
}

// submits tells whether the call submits a task.
func (c *call) submits() bool { return strings.HasSuffix(c.method, "_Task") }

// readCall finds the first element of the Body and its _this, reading no further.
func readCall(r *http.Request) (*call, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	client, _, _ := bytes.Cut([]byte(r.UserAgent()), []byte("/"))
	c := &call{body: body, client: string(client), header: r.Header}
	decoder := xml.NewDecoder(bytes.NewReader(body))
	inBody := false
	for {
		token, err := decoder.Token()
		if err != nil {
			return nil, fmt.Errorf("no SOAP request: %w", err)
		}
		start, ok := token.(xml.StartElement)
		switch {
		case !ok:
		case start.Name.Local == "Body":
			inBody = true
		case inBody && c.method == "":
			c.method = start.Name.Local
		case inBody && start.Name.Local == "_this":
			return c, decoder.DecodeElement(&c.this, &start)
		}
	}
}

// fault is a vSphere fault as the control endpoint takes it. Fields are those of govmomi's type, by their JSON names.
type fault struct {
	Type    string          `json:"type"`
	Message string          `json:"message,omitempty"`
	Fields  json.RawMessage `json:"fields,omitempty"`
	When    string          `json:"when,omitempty"` // of a task's fault: before (left out) or after the task has acted
}

var typeOf = types.TypeFunc()

func (f *fault) build() (types.BaseMethodFault, error) {
	kind, ok := typeOf(f.Type)
	if !ok {
		return nil, fmt.Errorf("there is no fault %q in vSphere's API", f.Type)
	}
	value := reflect.New(kind)
	built, ok := value.Interface().(types.BaseMethodFault)
	if !ok {
		return nil, fmt.Errorf("%s is a type of vSphere's API, but no fault", f.Type)
	}
	if f.Fields != nil {
		decoder := json.NewDecoder(bytes.NewReader(f.Fields))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(value.Interface()); err != nil {
			return nil, fmt.Errorf("the fields of %s: %w", f.Type, err)
		}
	}
	return built, nil
}

const envelope = xml.Header + `<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" ` +
	`xmlns:xsd="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body>%s</soapenv:Body></soapenv:Envelope>`

// writeFault answers a call with a fault, as vCenter does: HTTP 500 and the typed fault in the detail.
func writeFault(w http.ResponseWriter, message string, f types.BaseMethodFault) {
	name := reflect.TypeOf(f).Elem().Name()
	var text, detail bytes.Buffer
	_ = xml.EscapeText(&text, []byte(message))
	start := xml.StartElement{Name: xml.Name{Local: name + "Fault"}, Attr: []xml.Attr{
		{Name: xml.Name{Local: "xmlns"}, Value: "urn:vim25"},
		{Name: xml.Name{Local: "xsi:type"}, Value: name},
	}}
	if err := xml.NewEncoder(&detail).EncodeElement(f, start); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeEnvelope(w, http.StatusInternalServerError, fmt.Sprintf(
		`<soapenv:Fault><faultcode>ServerFaultCode</faultcode><faultstring>%s</faultstring><detail>%s</detail></soapenv:Fault>`,
		text.String(), detail.String()))
}

// writeTask answers a call that submits a task.
func writeTask(w http.ResponseWriter, method string, task types.ManagedObjectReference) {
	writeEnvelope(w, http.StatusOK, fmt.Sprintf(
		`<%sResponse xmlns="urn:vim25"><returnval type="Task">%s</returnval></%sResponse>`, method, task.Value, method))
}

// writeAnswer answers a call that submits none.
func writeAnswer(w http.ResponseWriter, method string, answer any) {
	var body bytes.Buffer
	start := xml.StartElement{
		Name: xml.Name{Local: method + "Response"},
		Attr: []xml.Attr{{Name: xml.Name{Local: "xmlns"}, Value: "urn:vim25"}},
	}
	if err := xml.NewEncoder(&body).EncodeElement(answer, start); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeEnvelope(w, http.StatusOK, body.String())
}

func writeEnvelope(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/xml; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, envelope, body)
}
