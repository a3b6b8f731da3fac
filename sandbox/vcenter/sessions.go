package vcenter

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// What vCenter answers without a session. vcsim would answer any property retrieval too.
var openMethods = map[string]bool{
	"RetrieveServiceContent": true, "Login": true, "LoginByToken": true, "LoginExtensionByCertificate": true, "CloneSession": true,
}

// sessions knows who is logged in, so that sessions can be ended from outside, long polls included.
type sessions struct {
	service *simulator.Service

	mu       sync.Mutex
	user     string
	password string
	live     map[string]chan struct{} // by session key; closed when the session ends
}

func (s *sessions) init(service *simulator.Service, user, password string) {
	s.service, s.user, s.password, s.live = service, user, password, map[string]chan struct{}{}
	service.Context.Map.SessionManager().ValidLogin = s.valid
	// Any user but the simulator's default has it ask ValidLogin.
	service.Listen.User = url.User(user)
}

func (s *sessions) valid(login *types.Login) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return login.UserName == s.user && login.Password == s.password
}

func (s *sessions) setPassword(password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.password = password
}

func (s *sessions) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live)
}

// check returns a channel that is closed when the call's session ends, or the fault for having none.
func (s *sessions) check(c *call) (<-chan struct{}, types.BaseMethodFault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if over, ok := s.live[sessionKey(c)]; ok {
		return over, nil
	}
	if openMethods[c.method] {
		return nil, nil
	}
	return nil, notAuthenticated(c)
}

// note takes up what an answered call did to its session.
func (s *sessions) note(c *call, answer *httptest.ResponseRecorder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cookie := range answer.Result().Cookies() {
		if cookie.Name == soap.SessionCookieName {
			s.live[cookie.Value] = make(chan struct{})
		}
	}
	if over, ok := s.live[sessionKey(c)]; ok && c.method == "Logout" && answer.Code == http.StatusOK {
		close(over)
		delete(s.live, sessionKey(c))
	}
}

// expire ends every session, and says how many there were.
func (s *sessions) expire() int {
	s.mu.Lock()
	ended := s.live
	s.live = map[string]chan struct{}{}
	s.mu.Unlock()
	for key, over := range ended {
		close(over)
		// One that vcsim has ended by itself is not found, which is as good.
		_, _ = methods.TerminateSession(context.Background(), s.service, &types.TerminateSession{
			This: s.service.Context.Map.SessionManager().Reference(), SessionId: []string{key},
		})
	}
	return len(ended)
}

func sessionKey(c *call) string {
	cookie, err := (&http.Request{Header: c.header}).Cookie(soap.SessionCookieName)
	if err != nil {
		return ""
	}
	return cookie.Value
}

func notAuthenticated(c *call) types.BaseMethodFault {
	return &types.NotAuthenticated{NoPermission: types.NoPermission{Object: &c.this, PrivilegeId: "System.View"}}
}
