
2
xPlaceholder*
shape
:*
dtype0

ReluRelux*
T0
#
IdentityIdentityRelu*
T0"ª