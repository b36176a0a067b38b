package sqlstore
import ("testing";"time";"os";"github.com/hostler-io/hostler/coordinator";"github.com/hostler-io/hostler/protocol")
func TestScratch(t *testing.T){
 s,cfg:=create(t)
 for i:=0;i<300000;i+=1000 { err:=s.Update(t.Context(),func(tx coordinator.Tx) error { for j:=i;j<i+1000;j++ { d:=protocol.Sum([]byte{byte(j),byte(j>>8),byte(j>>16)}); var r [10]byte; copy(r[:],d[:]); a:=coordinator.Action{ID:protocol.NewActionID(int64(j),r),Host:protocol.HostID("edge-"+d.String()[:2]),State:protocol.StateDone,Spec:make([]byte,400),Requester:"token:alice"}; if err:=tx.Actions().Insert(a);err!=nil{return err}; if _,err:=tx.Journal().AppendAudit(coordinator.AuditRow{Actor:"x",Verb:"y",Object:a.ID.String()});err!=nil{return err} }; return nil }); if err!=nil {t.Fatal(err)} }
 s.Close(); fi,_:=os.Stat(cfg.Path); st:=time.Now(); s,err:=Open(t.Context(),cfg); if err!=nil{t.Fatal(err)}; t.Logf("size %d MB open %v",fi.Size()>>20,time.Since(st))
 st=time.Now(); s.View(t.Context(),func(tx coordinator.Tx) error { for range 100 { tx.Actions().List(coordinator.ActionFilter{Host:"edge-0f",States:[]protocol.State{protocol.StateDone,protocol.StateFailed}})}; return nil}); t.Logf("list 100 of host+states: %v", time.Since(st)/100); s.Close()
}
