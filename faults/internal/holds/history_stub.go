package holds

type pattern struct{}
type event struct{}

func (w *worker) history() {}
