package a

type Full struct {
	A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S, T, U, V, W, X, Y int
}

type Over struct { // want
	A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S, T, U, V, W, X, Y int
	Z                                                                         int
}

type Nested struct { // want
	A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S, T, U, V, W, X int
	Inner                                                                  struct{ Y, Z int }
}

type Record struct {
	A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S, T, U, V, W, X, Y int
	Z                                                                         int
}

type Pending struct {
	A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S, T, U, V, W, X, Y int
	Z                                                                         int
}

type Busy struct{} // want

func (Busy) M00() {}
func (Busy) M01() {}
func (Busy) M02() {}
func (Busy) M03() {}
func (Busy) M04() {}
func (Busy) M05() {}
func (Busy) M06() {}
func (Busy) M07() {}
func (Busy) M08() {}
func (Busy) M09() {}
func (Busy) M10() {}
func (Busy) M11() {}
func (Busy) M12() {}
func (Busy) M13() {}
func (Busy) M14() {}
func (Busy) M15() {}
func (Busy) M16() {}
func (Busy) M17() {}
func (Busy) M18() {}
func (Busy) M19() {}
func (Busy) M20() {}
func (Busy) M21() {}
func (Busy) M22() {}
func (Busy) M23() {}
func (Busy) M24() {}
func (Busy) M25() {}
func (Busy) M26() {}
func (Busy) M27() {}
func (Busy) M28() {}
func (Busy) M29() {}
func (Busy) M30() {}
func (Busy) M31() {}
func (Busy) M32() {}
func (Busy) M33() {}
func (Busy) M34() {}
func (Busy) M35() {}
func (Busy) M36() {}
func (Busy) M37() {}
func (Busy) M38() {}
func (Busy) M39() {}
func (Busy) M40() {}

type Enough struct{}

func (*Enough) M00() {}
func (*Enough) M01() {}
func (*Enough) M02() {}
func (*Enough) M03() {}
func (*Enough) M04() {}
func (*Enough) M05() {}
func (*Enough) M06() {}
func (*Enough) M07() {}
func (*Enough) M08() {}
func (*Enough) M09() {}
func (*Enough) M10() {}
func (*Enough) M11() {}
func (*Enough) M12() {}
func (*Enough) M13() {}
func (*Enough) M14() {}
func (*Enough) M15() {}
func (*Enough) M16() {}
func (*Enough) M17() {}
func (*Enough) M18() {}
func (*Enough) M19() {}
func (*Enough) M20() {}
func (*Enough) M21() {}
func (*Enough) M22() {}
func (*Enough) M23() {}
func (*Enough) M24() {}
func (*Enough) M25() {}
func (*Enough) M26() {}
func (*Enough) M27() {}
func (*Enough) M28() {}
func (*Enough) M29() {}
func (*Enough) M30() {}
func (*Enough) M31() {}
func (*Enough) M32() {}
func (*Enough) M33() {}
func (*Enough) M34() {}
func (*Enough) M35() {}
func (*Enough) M36() {}
func (*Enough) M37() {}
func (*Enough) M38() {}
func (*Enough) M39() {}
