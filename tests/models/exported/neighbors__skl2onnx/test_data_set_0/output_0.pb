BvariableJ`
@`
@˜s@