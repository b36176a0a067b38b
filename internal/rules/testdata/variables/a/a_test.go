package a

var update bool

func swap() {
	update = true
	seams = nil // want
}
