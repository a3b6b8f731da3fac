package vcenter

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vim25/xml"
)

// content is an object as it was read: its properties as XML, with their names.
type content struct {
	Object     reference  `xml:"obj"`
	Properties []property `xml:"propSet"`
	Missing    []missing  `xml:"missingSet"`
}

type property struct {
	Name string `xml:"name"`
	XML  string `xml:",innerxml"`
}

// missing is a property that can't be read.
type missing struct {
	Path  string `xml:"path"`
	XML   string `xml:",innerxml"`
	whole string // with its element, where the front says so
}

// retrieved is vcsim's answer to a retrieval, by any of its names.
type retrieved struct {
	Body struct {
		Any struct {
			Results []struct {
				content           // RetrieveProperties has the objects here
				Token   string    `xml:"token"`
				Objects []content `xml:"objects"`
			} `xml:"returnval"`
		} `xml:",any"`
	} `xml:"Body"`
}

// pages are the answers that are to be continued, with how their clients see them.
type pages struct {
	mu   sync.Mutex
	left map[string]*view
}

// retrieve answers a retrieval as its client may see things.
func (f *front) retrieve(r *http.Request, c *call) *httptest.ResponseRecorder {
	out := httptest.NewRecorder()
	if f.sight.isClear() {
		f.forward(out, r, c)
		return out
	}
	v, inner, refused := f.prepare(c)
	switch {
	case refused != nil:
		writeFault(out, "Permission to perform this operation was denied.", noView(*refused))
		return out
	case v == nil:
		f.forward(out, r, c)
		return out
	}
	f.forward(out, r, inner)
	var answer retrieved
	if out.Code != http.StatusOK || xml.Unmarshal(out.Body.Bytes(), &answer) != nil {
		return out
	}
	seen := httptest.NewRecorder()
	f.writeRetrieved(seen, c.method, v, &answer)
	return seen
}

// prepare says how the client of a retrieval sees things, and what is to be asked for it, or which object is refused.
func (f *front) prepare(c *call) (v *view, inner *call, refused *reference) {
	var body any
	switch request := c.request().(type) {
	case *types.RetrievePropertiesEx:
		v, request.SpecSet, refused = f.sight.look(c.client, request.SpecSet)
		body = methods.RetrievePropertiesExBody{Req: request}
	case *types.RetrieveProperties:
		v, request.SpecSet, refused = f.sight.look(c.client, request.SpecSet)
		body = methods.RetrievePropertiesBody{Req: request}
	case *types.ContinueRetrievePropertiesEx:
		return f.pages.take(request.Token), c, nil
	}
	if v == nil {
		return nil, nil, refused
	}
	return v, c.with(body), nil
}

// with is the same call with another body.
func (c *call) with(body any) *call {
	var text bytes.Buffer
	if err := xml.NewEncoder(&text).Encode(soap.Envelope{Body: body}); err != nil {
		panic(fmt.Sprintf("%T can't be written: %v", body, err)) // it was read before
	}
	inner := *c
	inner.body = text.Bytes()
	return &inner
}

func (f *front) writeRetrieved(w http.ResponseWriter, method string, v *view, answer *retrieved) {
	var text strings.Builder
	for _, result := range answer.Body.Any.Results {
		if method == "RetrieveProperties" {
			for _, object := range v.show([]content{result.content}) {
				text.WriteString("<returnval>" + object.text() + "</returnval>")
			}
			v.refused = nil
			continue
		}
		text.WriteString("<returnval>")
		if result.Token != "" {
			f.pages.put(result.Token, v)
			text.WriteString("<token>" + result.Token + "</token>")
		}
		for _, object := range v.show(result.Objects) {
			text.WriteString("<objects>" + object.text() + "</objects>")
		}
		v.refused = nil
		text.WriteString("</returnval>")
	}
	writeEnvelope(w, http.StatusOK, fmt.Sprintf(`<%sResponse xmlns="urn:vim25">%s</%sResponse>`, method, text.String(), method))
}

// text is an object's content as vSphere writes it, without the element around it.
func (c *content) text() string {
	var text strings.Builder
	fmt.Fprintf(&text, `<obj type="%s">%s</obj>`, c.Object.Type, c.Object.Value)
	for _, p := range c.Properties {
		text.WriteString("<propSet>" + p.XML + "</propSet>")
	}
	for _, m := range c.Missing {
		if m.whole != "" {
			text.WriteString(m.whole)
		} else {
			text.WriteString("<missingSet>" + m.XML + "</missingSet>")
		}
	}
	return text.String()
}

func (p *pages) put(token string, v *view) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left == nil {
		p.left = map[string]*view{}
	}
	p.left[token] = v
}

func (p *pages) take(token string) *view {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.left[token]
	delete(p.left, token)
	return v
}
